// The callbacks of counting: a pair beside those of the capture slots, for ops that are counted and not
// recorded.
#pragma once

namespace torchprof::bridge {

// Both return a code of bridge_abi.h.
int enable_counting();
int disable_counting();

}  // namespace torchprof::bridge
