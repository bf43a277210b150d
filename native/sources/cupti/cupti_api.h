// The functions of libcuda and libcupti that we call, found at run time.
//
// libcuda comes first: libcupti of CUDA 13.2 crashes in its first call where there is no driver. Then the
// copy of libcupti that the process has, which is torch's; only where there is none, one of those we are told
// of. Two copies in a process would both hook the driver. Nothing is ever unloaded, nor finalized.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace torchprof::cupti {

// CUptiResult, those that mean something of their own to us.
inline constexpr int kSuccess = 0;
inline constexpr int kNotCompatible = 14;
inline constexpr int kNotInitialized = 15;
inline constexpr int kHardwareBusy = 26;
inline constexpr int kInsufficientPrivileges = 35;
inline constexpr int kMultipleSubscribers = 39;

// CUpti_CallbackDomain
inline constexpr std::uint32_t kDriverDomain = 1;
inline constexpr std::uint32_t kRuntimeDomain = 2;

// What cuptiGetVersion says.
inline constexpr std::uint32_t kCuda12_0 = 18;
// From here on a buffer may be refused.
inline constexpr std::uint32_t kMayRefuseBuffers = 27;

using RequestBuffer = void (*)(std::uint8_t** buffer, std::size_t* size_bytes, std::size_t* max_records);
using CompleteBuffer = void (*)(void* context, std::uint32_t stream, std::uint8_t* buffer,
                                std::size_t size_bytes, std::size_t valid_bytes);
using SubscriberCallback = void (*)(void* user_data, std::uint32_t domain, std::uint32_t callback_id,
                                    const void* data);

// Optional functions are nullptr in a libcupti that is older than they are.
struct CuptiApi {
  int (*get_version)(std::uint32_t* version) noexcept;
  int (*get_timestamp)(std::uint64_t* timestamp_ns) noexcept;
  int (*get_result_string)(int result, const char** text) noexcept;
  int (*get_callback_name)(std::uint32_t domain, std::uint32_t callback_id, const char** name) noexcept;
  int (*subscribe)(void** subscriber, SubscriberCallback callback, void* user_data) noexcept;
  int (*unsubscribe)(void* subscriber) noexcept;
  int (*register_callbacks)(RequestBuffer request, CompleteBuffer complete) noexcept;
  int (*enable)(std::uint32_t kind) noexcept;
  int (*disable)(std::uint32_t kind) noexcept;
  int (*flush_all)(std::uint32_t flag) noexcept;
  int (*get_next_record)(std::uint8_t* buffer, std::size_t valid_bytes, std::byte** record) noexcept;
  int (*get_dropped_records)(void* context, std::uint32_t stream, std::size_t* dropped) noexcept;
  int (*push_external_id)(std::uint32_t kind, std::uint64_t id) noexcept;
  int (*pop_external_id)(std::uint32_t kind, std::uint64_t* last_id) noexcept;
  int (*enable_runtime_call)(std::uint32_t callback_id, std::uint8_t enable) noexcept;  // optional
  int (*enable_driver_call)(std::uint32_t callback_id, std::uint8_t enable) noexcept;   // optional
  int (*get_thread_id_type)(std::uint32_t* type) noexcept;                              // optional
  int (*set_thread_id_type)(std::uint32_t type) noexcept;                               // optional
};

struct CudaApi {
  int (*init)(unsigned flags) noexcept;
  int (*get_error_name)(int error, const char** name) noexcept;
  int (*get_driver_version)(int* version) noexcept;
  int (*get_device_count)(int* count) noexcept;
  int (*get_device)(int* device, int ordinal) noexcept;
  int (*get_device_attribute)(int* value, int attribute, int device) noexcept;
  int (*get_device_name)(char* name, int size_bytes, int device) noexcept;
  int (*get_device_memory)(std::size_t* size_bytes, int device) noexcept;
};

// CUresult
inline constexpr int kNoDevice = 100;

struct Libraries {
  CudaApi cuda{};
  CuptiApi cupti{};
  std::string cupti_path;  // as the loader knows it
};

// nullptr with the reason, and what helps, in `reason`. What was found once stays.
const Libraries* load_libraries(const std::vector<std::string>& paths, std::string& reason);

}  // namespace torchprof::cupti
