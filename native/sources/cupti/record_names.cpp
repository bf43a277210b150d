#include "sources/cupti/record_names.h"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory>

namespace torchprof::cupti {
namespace {

// By CUpti_ActivityMemcpyKind.
constexpr std::array<std::string_view, 11> kCopyKinds{"<unknown>", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                                      "AtoD",      "DtoA", "DtoD", "HtoH", "PtoP"};
// By CUpti_ActivityMemoryKind.
constexpr std::array<std::string_view, 8> kMemoryKinds{
    "Unknown", "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"};
// By CUpti_ActivitySynchronizationType.
constexpr std::array<std::string_view, 5> kSynchronizations{"Unknown Sync", "Event Sync", "Stream Wait Event",
                                                            "Stream Sync", "Context Sync"};
// By CUpti_ActivityOverheadKind >> 16.
constexpr std::array<std::string_view, 9> kOverheads{"Unknown",
                                                     "Activity Buffer Flush",
                                                     "Instrumentation",
                                                     "Resource",
                                                     "Runtime Triggered Module Loading",
                                                     "Lazy Function Loading",
                                                     "Command Buffer Full",
                                                     "Activity Buffer Request",
                                                     "UVM Activity Init"};

template <std::size_t Size>
std::string_view name_in(const std::array<std::string_view, Size>& names, std::size_t index) noexcept {
  return index < Size ? names[index] : names[0];
}

// Without `_v7000`; `_v2` is part of a name.
std::string_view without_version(std::string_view name) noexcept {
  constexpr std::size_t kMinDigits = 4;
  const std::size_t digits = static_cast<std::size_t>(
      std::find_if(name.rbegin(), name.rend(), [](char c) { return c < '0' || c > '9'; }) - name.rbegin());
  if (digits < kMinDigits || !name.substr(0, name.size() - digits).ends_with("_v")) {
    return name;
  }
  return name.substr(0, name.size() - digits - 2);
}

}  // namespace

std::string copy_name(std::uint8_t copy_kind, std::uint8_t source, std::uint8_t destination) {
  std::string name = "Memcpy ";
  name.append(name_in(kCopyKinds, copy_kind)).append(" (").append(name_in(kMemoryKinds, source));
  return name.append(" -> ").append(name_in(kMemoryKinds, destination)).append(")");
}

std::string memset_name(std::uint16_t memory_kind) {
  return std::string("Memset (").append(name_in(kMemoryKinds, memory_kind)).append(")");
}

std::string_view synchronization_name(std::uint32_t type) noexcept {
  return name_in(kSynchronizations, type);
}

std::string_view overhead_name(std::uint32_t kind) noexcept {
  constexpr std::uint32_t kDriverCompiler = 1;
  return kind == kDriverCompiler ? "Driver Compiler" : name_in(kOverheads, kind >> 16U);
}

std::string call_name(const CuptiApi& api, std::uint32_t domain, std::uint32_t callback_id) {
  const char* name = nullptr;
  if (api.get_callback_name(domain, callback_id, &name) == kSuccess && name != nullptr) {
    return std::string(without_version(name));
  }
  return (domain == kDriverDomain ? "driver call " : "runtime call ") + std::to_string(callback_id);
}

std::string kernel_name(const char* name) {
  if (name == nullptr) {
    return "unknown kernel";
  }
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return demangled != nullptr && status == 0 ? demangled.get() : name;
}

}  // namespace torchprof::cupti
