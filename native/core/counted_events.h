// Which events counters were read over: a capture says where they began, a recording which they are.
#pragma once

#include "core/problems.h"
#include "core/recording.h"

namespace torchprof {

// Replaces kEventByStart in the counters of a recording whose events are in order. Readings of events that
// are not there are left out; of a capture that goes on that is no problem.
void find_counted_events(Recording& recording, ProblemCounts& problems);

}  // namespace torchprof
