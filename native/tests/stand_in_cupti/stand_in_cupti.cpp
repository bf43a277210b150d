// Stands in for libcupti.so.13 in tests of threads, errors, buffers and shutdown: records of our own, in
// buffers of whoever registered, from a thread of its own.
//
// It proves nothing about CUPTI itself: when a buffer is asked for, which thread hands it over, what a flush
// waits for and what an error means is CUPTI's documentation here, not CUPTI. Its records are as long as
// those of each version and have the fields that the decoder reads; test_cupti_layout and test_cupti_oracle
// hold these against NVIDIA's headers and library.
#include "stand_in_cupti.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sources/cupti/cupti_api.h"
#include "sources/cupti/record_layout.h"

#define STAND_IN extern "C" __attribute__((visibility("default")))

namespace {

using namespace torchprof::cupti;  // NOLINT(google-build-using-namespace)

constexpr int kEndOfBuffer = 12;  // CUPTI_ERROR_MAX_LIMIT_REACHED
constexpr int kInvalidParameter = 1;
constexpr std::uint32_t kUnknownKind = 54;

using Record = std::vector<std::byte>;

struct HeldBuffer {
  std::uint8_t* data;
  std::size_t size_bytes;
};

struct StandIn {
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<std::uint32_t> version{130'000};
  std::map<std::string, int> failures;
  std::map<std::string, std::uint64_t> calls;
  std::set<std::uint32_t> enabled;
  std::set<std::uint32_t> driver_calls;
  std::set<std::uint32_t> muted_runtime_calls;
  RequestBuffer request = nullptr;
  CompleteBuffer complete = nullptr;
  bool subscribed = false;
  bool hangs = false;
  std::size_t dropped = 0;
  std::uint32_t thread_id_type = 0;
  std::uint32_t last_correlation = 0;
  std::deque<Record> records;
  std::vector<HeldBuffer> held;
  HeldBuffer current{};
  std::size_t filled_bytes = 0;
  bool busy = false;
  bool wants_completion = false;
  bool has_thread = false;
};

StandIn& stand_in() {
  static auto* const instance = new StandIn;
  return *instance;
}

thread_local std::vector<std::uint64_t> pushed;

// Counts the call; the result it was told to return.
int called(const char* function) {
  StandIn& self = stand_in();
  const std::lock_guard lock(self.mutex);
  ++self.calls[function];
  const auto failure = self.failures.find(function);
  return failure == self.failures.end() ? kSuccess : failure->second;
}

std::size_t size_of(ActivityKind kind, std::uint32_t version) {
  constexpr std::uint32_t k12_4 = 22;
  constexpr std::uint32_t k12_8 = 26;
  constexpr std::uint32_t k13_0 = 130'000;
  constexpr std::uint32_t k13_1 = 130'100;
  constexpr std::uint32_t k13_3 = 130'300;
  constexpr std::uint32_t k13_4 = 130'400;
  switch (kind) {
    case ActivityKind::kConcurrentKernel:
      return version >= k13_4   ? 248
             : version >= k13_3 ? 232
             : version >= k13_1 ? 224
             : version >= k13_0 ? 216
                                : 208;
    case ActivityKind::kMemcpy:
      return version >= k13_4 ? 112 : version >= k12_8 ? 96 : 88;
    case ActivityKind::kMemset:
      return version >= k13_4 ? 104 : 88;
    case ActivityKind::kSynchronization:
      return version >= k12_8 ? 56 : 40;
    case ActivityKind::kOverhead:
      return version >= k12_4 ? 56 : 40;
    case ActivityKind::kMemcpy2:
      return 96;
    case ActivityKind::kGraphTrace:
      return 56;
    case ActivityKind::kExternalCorrelation:
      return 24;
    default:
      return 40;
  }
}

template <typename T>
void set(Record& record, std::size_t offset, T value) {
  std::memcpy(record.data() + offset, &value, sizeof(value));
}

Record record_of(ActivityKind kind) {
  Record record(size_of(kind, stand_in().version.load()), std::byte{0});
  set(record, kKind, kind);
  return record;
}

// As a buffer is filled: without the lock where the other side is called.
void work(std::unique_lock<std::mutex>& lock, StandIn& self) {
  const auto complete = [&] {
    const HeldBuffer buffer = std::exchange(self.current, {});
    const std::size_t valid_bytes = std::exchange(self.filled_bytes, 0);
    const CompleteBuffer callback = self.complete;
    lock.unlock();
    callback(nullptr, 0, buffer.data, buffer.size_bytes, valid_bytes);
    lock.lock();
  };
  while (!self.records.empty()) {
    const Record record = std::move(self.records.front());
    self.records.pop_front();
    if (self.current.data != nullptr && self.filled_bytes + record.size() > self.current.size_bytes)
      complete();
    if (self.current.data == nullptr) {
      const RequestBuffer callback = self.request;
      HeldBuffer buffer{};
      std::size_t max_records = 1;
      lock.unlock();
      callback(&buffer.data, &buffer.size_bytes, &max_records);
      lock.lock();
      if (buffer.data == nullptr) {
        ++self.dropped;
        continue;
      }
      self.current = buffer;
    }
    std::memcpy(self.current.data + self.filled_bytes, record.data(), record.size());
    self.filled_bytes += record.size();
  }
  if (self.wants_completion) {
    self.wants_completion = false;
    // An empty buffer goes back too, as CUPTI's do.
    if (self.current.data != nullptr) complete();
  }
}

void run() {
  StandIn& self = stand_in();
  std::unique_lock lock(self.mutex);
  while (true) {
    self.changed.wait(lock, [&] { return !self.records.empty() || self.wants_completion; });
    self.busy = true;
    work(lock, self);
    self.busy = false;
    self.changed.notify_all();
  }
}

void settle(bool complete) {
  StandIn& self = stand_in();
  std::unique_lock lock(self.mutex);
  if (self.has_thread && self.request != nullptr) {
    self.wants_completion = self.wants_completion || complete;
    self.changed.notify_all();
    self.changed.wait(lock, [&] { return self.records.empty() && !self.busy && !self.wants_completion; });
  }
}

void emit(Record record) {
  StandIn& self = stand_in();
  const std::lock_guard lock(self.mutex);
  if (self.request == nullptr) return;
  self.records.push_back(std::move(record));
  if (!std::exchange(self.has_thread, true)) std::thread(run).detach();
  self.changed.notify_all();
}

bool is_enabled(ActivityKind kind) {
  StandIn& self = stand_in();
  const std::lock_guard lock(self.mutex);
  return self.enabled.contains(static_cast<std::uint32_t>(kind));
}

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
  const std::lock_guard lock(stand_in().mutex);
  stand_in().subscribed = false;
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
STAND_IN int cuptiActivityFlushAll(std::uint32_t) {
  const int result = called("cuptiActivityFlushAll");
  {
    std::unique_lock lock(stand_in().mutex);
    stand_in().changed.wait(lock, [] { return !stand_in().hangs; });
  }
  settle(true);
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
  pushed.push_back(id);
  return kSuccess;
}
STAND_IN int cuptiActivityPopExternalCorrelationId(std::uint32_t, std::uint64_t* last_id) {
  if (pushed.empty()) return 18;  // CUPTI_ERROR_QUEUE_EMPTY
  *last_id = pushed.back();
  pushed.pop_back();
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

STAND_IN void stand_in_reset(std::uint32_t version) {
  settle(true);
  stand_in_hold_buffers(0);
  StandIn& self = stand_in();
  const std::lock_guard lock(self.mutex);
  self.version = version;
  self.failures.clear();
  self.calls.clear();
  self.enabled.clear();
  self.driver_calls.clear();
  self.muted_runtime_calls.clear();
  self.subscribed = false;
  self.hangs = false;
  self.dropped = 0;
  self.thread_id_type = 0;
}
STAND_IN void stand_in_fail(const char* function, int result) {
  const std::lock_guard lock(stand_in().mutex);
  stand_in().failures[function] = result;
}
STAND_IN std::uint64_t stand_in_calls(const char* function) {
  const std::lock_guard lock(stand_in().mutex);
  return stand_in().calls[function];
}
STAND_IN void stand_in_hang(int hangs) {
  const std::lock_guard lock(stand_in().mutex);
  stand_in().hangs = hangs != 0;
  stand_in().changed.notify_all();
}
STAND_IN void stand_in_drop(std::size_t records) {
  const std::lock_guard lock(stand_in().mutex);
  stand_in().dropped += records;
}
STAND_IN std::size_t stand_in_hold_buffers(std::size_t count) {
  StandIn& self = stand_in();
  std::vector<HeldBuffer> old;
  RequestBuffer request = nullptr;
  CompleteBuffer complete = nullptr;
  {
    const std::lock_guard lock(self.mutex);
    old.swap(self.held);
    request = self.request;
    complete = self.complete;
  }
  for (const HeldBuffer& buffer : old) complete(nullptr, 0, buffer.data, buffer.size_bytes, 0);
  std::vector<HeldBuffer> held;
  for (std::size_t i = 0; i < count; ++i) {
    HeldBuffer buffer{};
    std::size_t max_records = 1;
    request(&buffer.data, &buffer.size_bytes, &max_records);
    if (buffer.data != nullptr) held.push_back(buffer);
  }
  const std::lock_guard lock(self.mutex);
  self.held = held;
  return held.size();
}

STAND_IN std::uint32_t stand_in_call(std::uint32_t callback_id, int is_driver) {
  StandIn& self = stand_in();
  std::uint32_t correlation = 0;
  bool is_traced = false;
  bool has_external = false;
  bool system_ids = false;
  {
    const std::lock_guard lock(self.mutex);
    correlation = ++self.last_correlation;
    const auto kind =
        static_cast<std::uint32_t>(is_driver != 0 ? ActivityKind::kDriver : ActivityKind::kRuntime);
    is_traced = is_driver != 0
                    ? self.enabled.contains(kind) || self.driver_calls.contains(callback_id)
                    : self.enabled.contains(kind) && !self.muted_runtime_calls.contains(callback_id);
    has_external = self.enabled.contains(static_cast<std::uint32_t>(ActivityKind::kExternalCorrelation));
    system_ids = self.thread_id_type == 1;
  }
  if (!is_traced) return correlation;
  const std::uint64_t start_ns = stand_in_now_ns();
  if (has_external && !pushed.empty()) {
    Record record = record_of(ActivityKind::kExternalCorrelation);
    set(record, external_correlation::kExternalKind, kExternalKindOfOps);
    set(record, external_correlation::kExternalId, pushed.back());
    set(record, external_correlation::kCorrelation, correlation);
    emit(std::move(record));
  }
  Record record = record_of(is_driver != 0 ? ActivityKind::kDriver : ActivityKind::kRuntime);
  set(record, api::kCallback, callback_id);
  set(record, api::kStart, start_ns);
  set(record, api::kEnd, stand_in_now_ns());
  const auto thread = system_ids ? static_cast<std::uint32_t>(::syscall(SYS_gettid))
                                 : static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(&pushed));
  set(record, api::kThread, thread);
  set(record, api::kCorrelation, correlation);
  emit(std::move(record));
  return correlation;
}
STAND_IN void stand_in_kernel(const char* name, std::uint32_t correlation, std::uint32_t device,
                              std::uint32_t stream, std::uint64_t start_ns, std::uint64_t end_ns) {
  if (!is_enabled(ActivityKind::kConcurrentKernel)) return;
  Record record = record_of(ActivityKind::kConcurrentKernel);
  set(record, kernel::kRegisters, std::uint16_t{32});
  set(record, kernel::kStart, start_ns);
  set(record, kernel::kEnd, end_ns);
  set(record, kernel::kDevice, device);
  set(record, kernel::kContext, device + 1);
  set(record, kernel::kStream, stream);
  set(record, kernel::kGrid, std::array<std::int32_t, 3>{264, 2, 1});
  set(record, kernel::kBlock, std::array<std::int32_t, 3>{128, 1, 1});
  set(record, kernel::kStaticShared, std::int32_t{1024});
  set(record, kernel::kDynamicShared, std::int32_t{512});
  set(record, kernel::kCorrelation, correlation);
  set(record, kernel::kName, name);
  set(record, kernel::kGraphNode, std::uint64_t{stream == 99 ? 7U : 0U});
  set(record, kernel::kGraph, std::uint32_t{stream == 99 ? 3U : 0U});
  emit(std::move(record));
}
STAND_IN void stand_in_copy(std::uint32_t correlation, std::uint64_t size_bytes, int between_devices,
                            std::uint64_t start_ns, std::uint64_t end_ns) {
  const ActivityKind kind = between_devices != 0 ? ActivityKind::kMemcpy2 : ActivityKind::kMemcpy;
  if (!is_enabled(kind)) return;
  Record record = record_of(kind);
  set(record, memcpy_record::kCopyKind,
      std::uint8_t{between_devices != 0 ? std::uint8_t{10} : std::uint8_t{1}});
  set(record, memcpy_record::kSource, std::uint8_t{between_devices != 0 ? std::uint8_t{3} : std::uint8_t{1}});
  set(record, memcpy_record::kDestination, std::uint8_t{3});
  set(record, memcpy_record::kBytes, size_bytes);
  set(record, memcpy_record::kStart, start_ns);
  set(record, memcpy_record::kEnd, end_ns);
  set(record, memcpy_record::kContext, std::uint32_t{1});
  set(record, memcpy_record::kStream, std::uint32_t{7});
  set(record, between_devices != 0 ? peer_copy::kCorrelation : memcpy_record::kCorrelation, correlation);
  emit(std::move(record));
}
STAND_IN void stand_in_memset(std::uint32_t correlation, std::uint64_t size_bytes, std::uint64_t start_ns,
                              std::uint64_t end_ns) {
  if (!is_enabled(ActivityKind::kMemset)) return;
  Record record = record_of(ActivityKind::kMemset);
  set(record, memset_record::kBytes, size_bytes);
  set(record, memset_record::kStart, start_ns);
  set(record, memset_record::kEnd, end_ns);
  set(record, memset_record::kContext, std::uint32_t{1});
  set(record, memset_record::kStream, std::uint32_t{7});
  set(record, memset_record::kCorrelation, correlation);
  set(record, memset_record::kMemoryKind, std::uint16_t{3});
  emit(std::move(record));
}
STAND_IN void stand_in_synchronize(std::uint32_t correlation, std::uint32_t type, std::uint64_t start_ns,
                                   std::uint64_t end_ns) {
  if (!is_enabled(ActivityKind::kSynchronization)) return;
  Record record = record_of(ActivityKind::kSynchronization);
  set(record, synchronization::kType, type);
  set(record, synchronization::kStart, start_ns);
  set(record, synchronization::kEnd, end_ns);
  set(record, synchronization::kCorrelation, correlation);
  set(record, synchronization::kContext, std::uint32_t{1});
  set(record, synchronization::kStream, ~std::uint32_t{0});
  set(record, synchronization::kEvent, ~std::uint32_t{0});
  emit(std::move(record));
}
STAND_IN void stand_in_graph(std::uint32_t correlation, std::uint32_t graph, std::uint64_t start_ns,
                             std::uint64_t end_ns) {
  if (!is_enabled(ActivityKind::kGraphTrace)) return;
  Record record = record_of(ActivityKind::kGraphTrace);
  set(record, graph_trace::kCorrelation, correlation);
  set(record, graph_trace::kStart, start_ns);
  set(record, graph_trace::kEnd, end_ns);
  set(record, graph_trace::kGraph, graph);
  set(record, graph_trace::kContext, std::uint32_t{1});
  set(record, graph_trace::kStream, std::uint32_t{7});
  emit(std::move(record));
}
STAND_IN void stand_in_overhead(std::uint32_t kind, std::uint64_t start_ns, std::uint64_t end_ns) {
  if (!is_enabled(ActivityKind::kOverhead)) return;
  Record record = record_of(ActivityKind::kOverhead);
  set(record, overhead::kOverheadKind, kind);
  set(record, overhead::kObjectKind, kObjectThread);
  set(record, overhead::kThread, static_cast<std::uint32_t>(::syscall(SYS_gettid)));
  set(record, overhead::kStart, start_ns);
  set(record, overhead::kEnd, end_ns);
  emit(std::move(record));
}
STAND_IN void stand_in_unknown() { emit(record_of(static_cast<ActivityKind>(kUnknownKind))); }
STAND_IN std::size_t stand_in_pushed() { return pushed.size(); }
STAND_IN void stand_in_settle(int complete) { settle(complete != 0); }
STAND_IN std::uint64_t stand_in_now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return (static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U) + static_cast<std::uint64_t>(now.tv_nsec);
}
