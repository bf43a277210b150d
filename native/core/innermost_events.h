// In which event something happened of which only thread and time are known.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/recording.h"

namespace torchprof {

struct TrackMoment {
  std::uint32_t track;
  std::int64_t time_ns;
};

// For each moment the row of the innermost event that was going on on its track; -1 where there was none. As
// in tree.h, events that are async or ended on another thread enclose nothing. `moments` in order of track,
// then time; rows in order. Linear in both.
[[nodiscard]] std::vector<std::int64_t> innermost_events(const EventTable& events,
                                                         std::span<const TrackMoment> moments);

}  // namespace torchprof
