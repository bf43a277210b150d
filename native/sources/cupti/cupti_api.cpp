#include "sources/cupti/cupti_api.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <atomic>
#include <mutex>
#include <utility>

namespace torchprof::cupti {
namespace {

constexpr std::array kSharedNames{"libcupti.so.13", "libcupti.so.12"};

std::string loader_error() {
  const char* const text = ::dlerror();
  return text != nullptr ? text : "no reason given";
}

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

template <typename Function>
bool require(void* library, const char* name, Function& function, std::string& missing) {
  if (find(library, name, function)) {
    return true;
  }
  missing = name;
  return false;
}

bool find_cuda(void* library, CudaApi& api, std::string& missing) {
  return require(library, "cuInit", api.init, missing) &&
         require(library, "cuGetErrorName", api.get_error_name, missing) &&
         require(library, "cuDriverGetVersion", api.get_driver_version, missing) &&
         require(library, "cuDeviceGetCount", api.get_device_count, missing) &&
         require(library, "cuDeviceGet", api.get_device, missing) &&
         require(library, "cuDeviceGetAttribute", api.get_device_attribute, missing) &&
         require(library, "cuDeviceGetName", api.get_device_name, missing) &&
         require(library, "cuDeviceTotalMem_v2", api.get_device_memory, missing);
}

bool find_cupti(void* library, CuptiApi& api, std::string& missing) {
  static_cast<void>(find(library, "cuptiActivityEnableRuntimeApi", api.enable_runtime_call));
  static_cast<void>(find(library, "cuptiActivityEnableDriverApi", api.enable_driver_call));
  static_cast<void>(find(library, "cuptiGetThreadIdType", api.get_thread_id_type));
  static_cast<void>(find(library, "cuptiSetThreadIdType", api.set_thread_id_type));
  return require(library, "cuptiGetVersion", api.get_version, missing) &&
         require(library, "cuptiGetTimestamp", api.get_timestamp, missing) &&
         require(library, "cuptiGetResultString", api.get_result_string, missing) &&
         require(library, "cuptiGetCallbackName", api.get_callback_name, missing) &&
         require(library, "cuptiSubscribe", api.subscribe, missing) &&
         require(library, "cuptiUnsubscribe", api.unsubscribe, missing) &&
         require(library, "cuptiActivityRegisterCallbacks", api.register_callbacks, missing) &&
         require(library, "cuptiActivityEnable", api.enable, missing) &&
         require(library, "cuptiActivityDisable", api.disable, missing) &&
         require(library, "cuptiActivityFlushAll", api.flush_all, missing) &&
         require(library, "cuptiActivityGetNextRecord", api.get_next_record, missing) &&
         require(library, "cuptiActivityGetNumDroppedRecords", api.get_dropped_records, missing) &&
         require(library, "cuptiActivityPushExternalCorrelationId", api.push_external_id, missing) &&
         require(library, "cuptiActivityPopExternalCorrelationId", api.pop_external_id, missing);
}

std::string path_of(void* library) {
  link_map* map = nullptr;
  return ::dlinfo(library, RTLD_DI_LINKMAP, reinterpret_cast<void*>(&map)) == 0 && map != nullptr
             ? map->l_name
             : "";
}

void* open_cupti(const std::vector<std::string>& paths, std::string& reason) {
  for (const char* name : kSharedNames) {
    if (void* const shared = ::dlopen(name, RTLD_NOW | RTLD_NOLOAD); shared != nullptr) {
      return shared;
    }
  }
  for (const std::string& path : paths) {
    if (void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); library != nullptr) {
      return library;
    }
    reason = loader_error();  // of the last one: the most general
  }
  return nullptr;
}

const Libraries* load(const std::vector<std::string>& paths, std::string& reason) {
  void* const cuda = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (cuda == nullptr) {
    reason = "no CUDA driver (" + loader_error() + "); install the driver, or mount it into the container";
    return nullptr;
  }
  Libraries libraries;
  std::string missing;
  if (!find_cuda(cuda, libraries.cuda, missing)) {
    reason = "the CUDA driver has no " + missing + "; install a driver for CUDA 12.0 or newer";
    return nullptr;
  }
  void* const cupti = open_cupti(paths, reason);
  if (cupti == nullptr) {
    reason = "libcupti is not there (" + (reason.empty() ? "no place to look" : reason) +
             "); install nvidia-cuda-cupti of your CUDA version";
    return nullptr;
  }
  libraries.cupti_path = path_of(cupti);
  if (!find_cupti(cupti, libraries.cupti, missing)) {
    reason = libraries.cupti_path + " has no " + missing + "; install nvidia-cuda-cupti of your CUDA version";
    return nullptr;
  }
  return new Libraries(std::move(libraries));
}

}  // namespace

const Libraries* load_libraries(const std::vector<std::string>& paths, std::string& reason) {
  static std::atomic<const Libraries*> loaded{nullptr};
  static auto* const mutex = new std::mutex;  // of loading: whoever comes meanwhile waits
  if (const Libraries* const known = loaded.load(std::memory_order_acquire); known != nullptr) {
    return known;
  }
  const std::lock_guard lock(*mutex);
  if (loaded.load(std::memory_order_relaxed) == nullptr) {
    loaded.store(load(paths, reason), std::memory_order_release);
  }
  return loaded.load(std::memory_order_relaxed);
}

}  // namespace torchprof::cupti
