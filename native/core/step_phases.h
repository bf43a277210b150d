// Phases of steps, where what was recorded shows them.
#pragma once

#include "core/recording.h"

namespace torchprof {

// A step of which nobody said what it does is one of training when a backward began in it, on any thread.
// What it is without one cannot be told from the recording: it stays unknown. Steps are in order of start.
void find_step_phases(Recording& recording);

}  // namespace torchprof
