// Carries events over from a finished recording into one that is being built.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "core/builder.h"
#include "core/recording.h"

namespace torchprof {

// In `track_of`: what lies on this track stays behind.
inline constexpr std::uint32_t kNoTrack = std::numeric_limits<std::uint32_t>::max();

// Adds the events of `source` for which `keep` is not 0, with their inputs, the rows of the side tables and
// the links between them. Counter readings and memory stay when the event they belong to does not.
//
// `keep` has an entry for each event, `track_of` the builder's track for each track of `source`; events on a
// track without one are not kept. Throws std::invalid_argument for other lengths.
void append_events(RecordingBuilder& builder, const Recording& source, std::span<const std::uint8_t> keep,
                   std::span<const std::uint32_t> track_of);

}  // namespace torchprof
