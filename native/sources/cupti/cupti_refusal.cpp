#include "sources/cupti/cupti_refusal.h"

#include <link.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace torchprof::cupti {
namespace {

std::string_view remedy(int result) noexcept {
  switch (result) {
    case kNotCompatible:
      return "libcupti and driver do not fit, or another profiler uses another of its interfaces; stop that, "
             "or install the libcupti of the driver's CUDA version";
    case kNotInitialized:
      return "CUDA cannot start in this process; see whether torch.cuda.is_available() says why";
    case kHardwareBusy:
      return "another profiler uses the device; wait until it is done";
    case kInsufficientPrivileges:
      return "profiling is for administrators only; see https://developer.nvidia.com/ERR_NVGPUCTRPERM";
    case kMultipleSubscribers:
      return "one profiler a process; run without the other";
    default:
      return "see what NVIDIA says of this error of CUPTI, and whether Nsight Systems can trace the program";
  }
}

// Who may have it, by what is loaded.
struct KnownHolder {
  std::string_view part_of_path;
  std::string_view name;
};
constexpr std::string_view kTorchProfiler =
    "torch.profiler, which keeps it from its first CUDA profile on, or another profiler";
constexpr std::array kKnownHolders{
    KnownHolder{"ToolsInjection", "Nsight Systems"},
    KnownHolder{"cuda-injection", "Nsight Compute"},
    // A torch for CUDA has it always: that it was used, nobody tells.
    KnownHolder{"libkineto", kTorchProfiler},
    KnownHolder{"libtorch_cuda", kTorchProfiler},
};

}  // namespace

std::string refusal(const CuptiApi& api, std::string_view tried, int result) {
  const char* name = nullptr;
  if (api.get_result_string(result, &name) != kSuccess || name == nullptr) {
    name = "an error it does not name";
  }
  std::string text =
      "CUPTI refused " + std::string(tried) + ": " + name + " (" + std::to_string(result) + ")";
  if (result == kMultipleSubscribers) {
    text += ", held by " + subscription_holder();
  }
  return text + "; " + std::string(remedy(result));
}

std::vector<std::string> loaded_libraries() {
  std::vector<std::string> paths;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* into) {
        static_cast<std::vector<std::string>*>(into)->emplace_back(info->dlpi_name);
        return 0;
      },
      &paths);
  return paths;
}

std::string subscription_holder(const std::vector<std::string>& libraries,
                                std::string_view injected_library) {
  const auto has = [](std::string_view path, const KnownHolder& holder) noexcept {
    return path.find(holder.part_of_path) != path.npos;
  };
  // What the driver was told to load is there for this.
  if (!injected_library.empty()) {
    for (const KnownHolder& holder : kKnownHolders) {
      if (has(injected_library, holder)) return std::string(holder.name);
    }
    return std::string(injected_library);
  }
  for (const KnownHolder& holder : kKnownHolders) {
    if (std::any_of(libraries.begin(), libraries.end(),
                    [&](const std::string& path) { return has(path, holder); })) {
      return std::string(holder.name);
    }
  }
  return "another profiler";
}

std::string subscription_holder() {
  const char* const injected = std::getenv("CUDA_INJECTION64_PATH");
  return subscription_holder(loaded_libraries(), injected != nullptr ? injected : "");
}

}  // namespace torchprof::cupti
