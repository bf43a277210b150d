// The steps of a recording, with the contexts they are linked to.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/chunk_index.h"
#include "core/event_reader.h"
#include "core/recording.h"
#include "core/time_reader.h"
#include "core/track_reader.h"

namespace torchprof {

// In order of start. Comes after everything else with a time: open steps end at times.last_ns().
std::vector<Step> read_steps(std::span<const std::byte> file, const std::vector<Chunk>& chunks,
                             const PayloadRanges& payload, TimeReader& times, TrackReader& tracks,
                             ProblemCounts& problems);

}  // namespace torchprof
