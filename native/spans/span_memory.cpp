#include "spans/span_memory.h"

#include <algorithm>

#include "spans/plan.h"

namespace torchprof {
namespace {

constexpr std::uint8_t kCpu = 0;  // c10::DeviceType

MemoryUse use_of(const EventMemory& memory, std::uint64_t row) {
  return {.allocated_bytes = memory.allocated[row],
          .freed_bytes = memory.freed[row],
          .peak_bytes = memory.peak[row]};
}

bool is_zero(const MemoryUse& use) { return use.allocated_bytes == 0 && use.freed_bytes == 0; }

// Sums are unsigned: those of a damaged file may wrap.
class RunningUse {
 public:
  void change(std::int64_t size_bytes) {
    const auto bytes = static_cast<std::uint64_t>(size_bytes);
    (size_bytes > 0 ? allocated_ : freed_) += size_bytes > 0 ? bytes : -bytes;
    peak_ = std::max(peak_, static_cast<std::int64_t>(allocated_ - freed_));
  }
  [[nodiscard]] MemoryUse use() const {
    return {.allocated_bytes = static_cast<std::int64_t>(allocated_),
            .freed_bytes = static_cast<std::int64_t>(freed_),
            .peak_bytes = peak_};
  }

 private:
  std::uint64_t allocated_ = 0;
  std::uint64_t freed_ = 0;
  std::int64_t peak_ = 0;
};

SpanMemory between(const std::vector<MemoryRecord>& memory, std::int64_t start_ns, std::int64_t end_ns) {
  RunningUse host;
  RunningUse devices;
  auto record = std::lower_bound(memory.begin(), memory.end(), start_ns,
                                 [](const MemoryRecord& candidate, std::int64_t time_ns) {
                                   return static_cast<std::int64_t>(candidate.time) < time_ns;
                                 });
  for (; record != memory.end() && static_cast<std::int64_t>(record->time) <= end_ns; ++record) {
    if ((record->flags & kMemoryOutOfMemory) != 0) continue;
    (record->device_type == kCpu ? host : devices).change(record->size_bytes);
  }
  return {.host = host.use(), .devices = devices.use()};
}

SpanMemory& memory_of(SpanPlan& plan, std::uint32_t span) {
  std::uint32_t& index = plan.spans[span].memory;
  if (index == PlannedSpan::kNone) {
    index = static_cast<std::uint32_t>(plan.memory.size());
    plan.memory.emplace_back();
  }
  return plan.memory[index];
}

}  // namespace

RecordedMemory recorded_memory(const Recording& recording, const Tree& tree) {
  if (recording.memory.empty()) return {};
  return {.host = event_memory(recording, tree, MemoryOf::kHost),
          .devices = event_memory(recording, tree, MemoryOf::kDevices),
          .events = memory_events(recording)};
}

void add_memory(SpanPlan& plan, const RecordedMemory& recorded, const std::vector<std::uint32_t>& span_of) {
  plan.memory.clear();
  const std::vector<MemoryRecord>& memory = plan.recording.memory;
  if (memory.empty()) return;
  for (std::uint32_t index = 0; index < plan.spans.size(); ++index) {
    const PlannedSpan& span = plan.spans[index];
    SpanMemory use;
    if (span.type == SpanType::kRoot) {
      const SpanRoot& root = plan.roots[span.root];
      use = between(memory, root.start_ns, root.end_ns);
    } else if (span.type == SpanType::kEvent) {
      use = {.host = use_of(recorded.host, span.event), .devices = use_of(recorded.devices, span.event)};
    }
    if (!is_zero(use.host) || !is_zero(use.devices)) memory_of(plan, index) = use;
  }
  for (std::size_t index = 0; index < memory.size(); ++index) {
    if ((memory[index].flags & kMemoryOutOfMemory) == 0 || recorded.events[index] < 0) continue;
    const std::uint32_t span = span_of[static_cast<std::size_t>(recorded.events[index])];
    if (span == PlannedSpan::kNone) continue;
    std::int64_t& failed_bytes = memory_of(plan, span).failed_bytes;
    failed_bytes = std::max(failed_bytes, memory[index].size_bytes);
  }
}

}  // namespace torchprof
