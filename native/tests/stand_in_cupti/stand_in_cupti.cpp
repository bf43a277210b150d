// Stands in for libcupti.so.13 in tests of threads, errors, buffers and shutdown: records of our own, in
// buffers of whoever registered, from a thread of its own.
//
// It proves nothing about CUPTI itself: when a buffer is asked for, which thread hands it over, what a flush
// waits for and what an error means is CUPTI's documentation here, not CUPTI. Its records are as long as
// those of each version and have the fields that the decoder reads; test_cupti_layout and test_cupti_oracle
// hold these against NVIDIA's headers and library.
#include "stand_in_cupti.h"

#include <map>
#include <mutex>
#include <utility>

#include "stand_in_state.h"

using namespace torchprof::stand_in;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int kInvalidParameter = 1;
constexpr int kEndOfBuffer = 12;    // CUPTI_ERROR_MAX_LIMIT_REACHED
constexpr int kNothingPushed = 18;  // CUPTI_ERROR_QUEUE_EMPTY

}  // namespace

STAND_IN int cuptiGetVersion(std::uint32_t* version) {
  const int result = called("cuptiGetVersion");
  *version = stand_in().version.load();
  return result;
}
STAND_IN int cuptiGetTimestamp(std::uint64_t* timestamp_ns) {
  *timestamp_ns = stand_in_now_ns();
  return called("cuptiGetTimestamp");
}
STAND_IN int cuptiGetResultString(int result, const char** text) {
  static const std::map<int, const char*> names{{14, "CUPTI_ERROR_NOT_COMPATIBLE"},
                                                {15, "CUPTI_ERROR_NOT_INITIALIZED"},
                                                {26, "CUPTI_ERROR_HARDWARE_BUSY"},
                                                {35, "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"},
                                                {39, "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"}};
  const auto found = names.find(result);
  if (found == names.end()) return kInvalidParameter;
  *text = found->second;
  return kSuccess;
}
STAND_IN int cuptiGetCallbackName(std::uint32_t domain, std::uint32_t callback_id, const char** name) {
  if (domain == kRuntimeDomain && callback_id == 211) {
    *name = "cudaLaunchKernel_v7000";
  } else if (domain == kRuntimeDomain && callback_id == 41) {
    *name = "cudaMemcpyAsync_v3020";
  } else if (domain == kRuntimeDomain && callback_id == 165) {
    *name = "cudaDeviceSynchronize_v3020";
  } else if (domain == kDriverDomain && callback_id == 307) {
    *name = "cuLaunchKernel";
  } else {
    return kInvalidParameter;
  }
  return kSuccess;
}
STAND_IN int cuptiSubscribe(void** subscriber, SubscriberCallback, void*) {
  if (const int result = called("cuptiSubscribe"); result != kSuccess) return result;
  const std::lock_guard lock(stand_in().mutex);
  if (std::exchange(stand_in().subscribed, true)) return kMultipleSubscribers;
  *subscriber = &stand_in();
  return kSuccess;
}
STAND_IN int cuptiUnsubscribe(void*) {
  const int result = called("cuptiUnsubscribe");
  {
    const std::lock_guard lock(stand_in().mutex);
    stand_in().subscribed = false;
  }
  end_worker();
  return result;
}
STAND_IN int cuptiActivityRegisterCallbacks(RequestBuffer request, CompleteBuffer complete) {
  if (const int result = called("cuptiActivityRegisterCallbacks"); result != kSuccess) return result;
  const std::lock_guard lock(stand_in().mutex);
  stand_in().request = request;
  stand_in().complete = complete;
  return kSuccess;
}
STAND_IN int cuptiActivityEnable(std::uint32_t kind) {
  if (const int result = called("cuptiActivityEnable"); result != kSuccess) return result;
  const std::lock_guard lock(stand_in().mutex);
  stand_in().enabled.insert(kind);
  return kSuccess;
}
STAND_IN int cuptiActivityDisable(std::uint32_t kind) {
  const int result = called("cuptiActivityDisable");
  const std::lock_guard lock(stand_in().mutex);
  stand_in().enabled.erase(kind);
  return result;
}
// Unless it is forced, a buffer with a record of work that has not ended stays here.
STAND_IN int cuptiActivityFlushAll(std::uint32_t flag) {
  const int result = called("cuptiActivityFlushAll");
  constexpr std::uint32_t kForced = 1;
  {
    std::unique_lock lock(stand_in().mutex);
    stand_in().changed.wait(lock, [] { return !stand_in().hangs; });
  }
  settle(false);
  bool holds_unfinished = false;
  {
    const std::lock_guard lock(stand_in().mutex);
    holds_unfinished = stand_in().holds_unfinished && flag != kForced;
  }
  if (!holds_unfinished && result == kSuccess) settle(true);
  return result;
}
STAND_IN int cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid_bytes, std::byte** record) {
  const std::uint32_t version = stand_in().version.load(std::memory_order_relaxed);
  auto* const begin = reinterpret_cast<std::byte*>(buffer);
  std::byte* next = begin;
  if (*record != nullptr) next = *record + size_of(field<ActivityKind>(*record, kKind), version);
  if (static_cast<std::size_t>(next - begin) >= valid_bytes) return kEndOfBuffer;
  *record = next;
  return kSuccess;
}
STAND_IN int cuptiActivityGetNumDroppedRecords(void*, std::uint32_t, std::size_t* dropped) {
  const int result = called("cuptiActivityGetNumDroppedRecords");
  const std::lock_guard lock(stand_in().mutex);
  *dropped = std::exchange(stand_in().dropped, 0);
  return result;
}
STAND_IN int cuptiActivityPushExternalCorrelationId(std::uint32_t, std::uint64_t id) {
  if (const int result = called("cuptiActivityPushExternalCorrelationId"); result != kSuccess) return result;
  pushed().push_back(id);
  return kSuccess;
}
STAND_IN int cuptiActivityPopExternalCorrelationId(std::uint32_t, std::uint64_t* last_id) {
  if (pushed().empty()) return kNothingPushed;
  *last_id = pushed().back();
  pushed().pop_back();
  return called("cuptiActivityPopExternalCorrelationId");
}
STAND_IN int cuptiActivityEnableRuntimeApi(std::uint32_t callback_id, std::uint8_t enable) {
  const int result = called("cuptiActivityEnableRuntimeApi");
  const std::lock_guard lock(stand_in().mutex);
  if (enable != 0) {
    stand_in().muted_runtime_calls.erase(callback_id);
  } else {
    stand_in().muted_runtime_calls.insert(callback_id);
  }
  return result;
}
STAND_IN int cuptiActivityEnableDriverApi(std::uint32_t callback_id, std::uint8_t enable) {
  const int result = called("cuptiActivityEnableDriverApi");
  const std::lock_guard lock(stand_in().mutex);
  if (enable != 0) {
    stand_in().driver_calls.insert(callback_id);
  } else {
    stand_in().driver_calls.erase(callback_id);
  }
  return result;
}
STAND_IN int cuptiGetThreadIdType(std::uint32_t* type) {
  const std::lock_guard lock(stand_in().mutex);
  *type = stand_in().thread_id_type;
  return kSuccess;
}
STAND_IN int cuptiSetThreadIdType(std::uint32_t type) {
  const std::lock_guard lock(stand_in().mutex);
  stand_in().thread_id_type = type;
  return kSuccess;
}
