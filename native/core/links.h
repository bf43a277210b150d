// Which forward op made the autograd node that a backward op runs.
#pragma once

#include "core/recording.h"

namespace torchprof {

// One link from each backward op (it has a forward thread and a sequence number) to the op with that
// sequence number that started last on that thread: several nested ops carry the number that is next to be
// given out, the innermost made the node. Backward ops whose forward op was not recorded have no link.
[[nodiscard]] LinkTable forward_backward_links(const Recording& recording);

}  // namespace torchprof
