// Writes what was counted between two readings: a record a counter.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/active_recording.h"
#include "core/chunk_cursor.h"
#include "core/counter_source.h"

namespace torchprof {

class CounterRecords {
 public:
  // At most kMaxCounters names, in the order of a reading's values.
  CounterRecords(ActiveRecording& recording, std::span<const std::string> names);

  struct Place {
    std::uint64_t time;
    std::int64_t event;
    std::uint32_t track;
  };
  // Returns false when there was no room, or the counters never had their turn; counted as drops.
  bool write(ChunkCursor& cursor, const Place& place, const CounterReading& from,
             const CounterReading& to) noexcept;

 private:
  struct NameIds {
    std::uint32_t counted;
    std::uint32_t estimated;
  };
  ActiveRecording& recording_;
  std::vector<NameIds> names_;
};

}  // namespace torchprof
