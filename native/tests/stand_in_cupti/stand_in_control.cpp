// What tests tell the stand-in to be and to do.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <mutex>
#include <utility>
#include <vector>

#include "stand_in_cupti.h"
#include "stand_in_state.h"

using namespace torchprof::stand_in;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::uint32_t kUnknownKind = 54;

}  // namespace

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
  if (has_external && !pushed().empty()) {
    Record record = record_of(ActivityKind::kExternalCorrelation);
    set(record, external_correlation::kExternalKind, kExternalKindOfOps);
    set(record, external_correlation::kExternalId, pushed().back());
    set(record, external_correlation::kCorrelation, correlation);
    emit(std::move(record));
  }
  Record record = record_of(is_driver != 0 ? ActivityKind::kDriver : ActivityKind::kRuntime);
  set(record, api::kCallback, callback_id);
  set(record, api::kStart, start_ns);
  set(record, api::kEnd, stand_in_now_ns());
  const auto thread = system_ids ? static_cast<std::uint32_t>(::syscall(SYS_gettid))
                                 : static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(&pushed()));
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
STAND_IN std::size_t stand_in_pushed() { return pushed().size(); }
STAND_IN void stand_in_settle(int complete) { settle(complete != 0); }
STAND_IN std::uint64_t stand_in_now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return (static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U) + static_cast<std::uint64_t>(now.tv_nsec);
}
