// Which span of another trace an event belongs under: kept beside the event by whoever reads the context at
// its beginning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/chunk_index.h"
#include "core/event_reader.h"
#include "core/problems.h"
#include "core/recording.h"
#include "core/time_reader.h"
#include "core/track_reader.h"

namespace torchprof {

// A context as it is read: of the event with a number in the order of the file, or of the innermost one of a
// track at a time, where `event` is -1.
struct ReadContext {
  std::int64_t event = -1;
  std::uint32_t track = 0;
  std::int64_t time_ns = 0;
  EventContext context;
};

[[nodiscard]] std::vector<ReadContext> read_contexts(std::span<const std::byte> file,
                                                     const std::vector<Chunk>& chunks,
                                                     std::uint64_t events_count, const PayloadRanges& payload,
                                                     TimeReader& times, TrackReader& tracks,
                                                     ProblemCounts& problems);

// The contexts with the rows of their events, by row; one an event, the last that was noted. Those of events
// that were not recorded are left out. `new_rows` as order_rows() returns it.
[[nodiscard]] std::vector<EventContext> place_contexts(std::vector<ReadContext> contexts,
                                                       const EventTable& events,
                                                       const std::vector<std::uint64_t>& new_rows);

}  // namespace torchprof
