// Reads the tables beside the events: what devices report, counters, memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/chunk_index.h"
#include "core/recording.h"
#include "core/string_reader.h"
#include "core/time_reader.h"
#include "core/track_reader.h"

namespace torchprof {

struct SideTables {
  std::vector<DeviceRecord> devices;
  std::vector<CounterRecord> counters;
  std::vector<MemoryRecord> memory;
};

// Rows of events that are not among the `events_count` of the file are left out and counted; `event` still
// counts in the order of the file.
[[nodiscard]] SideTables read_side_tables(std::span<const std::byte> file, const std::vector<Chunk>& chunks,
                                          std::uint64_t events_count, const StringIds& strings,
                                          TimeReader& times, TrackReader& tracks, ProblemCounts& problems);

}  // namespace torchprof
