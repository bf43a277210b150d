// What events of a device are called: as Kineto calls them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sources/cupti/cupti_api.h"

namespace torchprof::cupti {

// `Memcpy HtoD (Pageable -> Device)`
[[nodiscard]] std::string copy_name(std::uint8_t copy_kind, std::uint8_t source, std::uint8_t destination);
// `Memset (Device)`
[[nodiscard]] std::string memset_name(std::uint16_t memory_kind);
[[nodiscard]] std::string_view synchronization_name(std::uint32_t type) noexcept;
[[nodiscard]] std::string_view overhead_name(std::uint32_t kind) noexcept;
// `cudaLaunchKernel`, without the version of CUDA that the runtime's names end in; made up of the number
// where CUPTI has no name.
[[nodiscard]] std::string call_name(const CuptiApi& api, std::uint32_t domain, std::uint32_t callback_id);
// Demangled, where it is mangled.
[[nodiscard]] std::string kernel_name(const char* name);

}  // namespace torchprof::cupti
