// Which events begin work of a backward pass.
#pragma once

#include <cstdint>
#include <vector>

#include "core/recording.h"

namespace torchprof {

// By row, 1 for a function of the backward pass: by its scope, by torch's name for running one, or as it
// names the thread of its forward op (traces of torch.profiler do not say what scope an event has).
[[nodiscard]] std::vector<std::uint8_t> backward_events(const Recording& recording);

}  // namespace torchprof
