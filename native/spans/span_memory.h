// What was allocated and freed over each span, and the requests that failed in it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/event_memory.h"
#include "core/recording.h"
#include "core/tree.h"

namespace torchprof {

struct MemoryUse {
  std::int64_t allocated_bytes = 0;
  std::int64_t freed_bytes = 0;
  std::int64_t peak_bytes = 0;  // the most that was held more than when the span began
};

// On the thread of an event, for a step on all threads.
struct SpanMemory {
  MemoryUse host;
  MemoryUse devices;
  std::int64_t failed_bytes = 0;  // the largest request that failed; 0 = none did
};

// All of it that does not depend on which events become spans; empty without memory.
struct RecordedMemory {
  EventMemory host;
  EventMemory devices;
  std::vector<std::int64_t> events;  // by row of Recording::memory, -1 = none
};

[[nodiscard]] RecordedMemory recorded_memory(const Recording& recording, const Tree& tree);

// Why the status of a span with this memory is an error; empty when it is none.
[[nodiscard]] constexpr std::string_view memory_error(const SpanMemory& memory) noexcept {
  return memory.failed_bytes != 0 ? std::string_view("out of memory") : std::string_view();
}

struct SpanPlan;

// `span_of`: by row of the events, the span that it is or is folded into.
void add_memory(SpanPlan& plan, const RecordedMemory& recorded, const std::vector<std::uint32_t>& span_of);

}  // namespace torchprof
