// What each event allocated and freed, itself and with all that it encloses.
#pragma once

#include <cstdint>
#include <vector>

#include "core/recording.h"
#include "core/tree.h"

namespace torchprof {

enum class MemoryOf : std::uint8_t { kHost, kDevices };

// Columns, one row an event, in bytes. What one event frees another may have allocated.
struct EventMemory {
  std::vector<std::int64_t> allocated;
  std::vector<std::int64_t> freed;
  std::vector<std::int64_t> self_allocated;  // not within an event that it encloses
  std::vector<std::int64_t> self_freed;
  std::vector<std::int64_t> peak;  // the most that its thread held more than when it began; >= 0
};

// Only frees whose size is known count.
[[nodiscard]] EventMemory event_memory(const Recording& recording, const Tree& tree, MemoryOf memory);

// For every row of Recording::memory the event it belongs to: the one it names, else the innermost on its
// track at its time; -1 = none.
[[nodiscard]] std::vector<std::int64_t> memory_events(const Recording& recording);

}  // namespace torchprof
