// The lock of everything that is switched in torch: callbacks, the allocator, trackers. Never taken by what
// they do.
//
// It is held across a fork, so that no thread is inside torch's lists when they are copied: by the system's
// handlers, not by Python's, in the midst of which a signal handler may want to switch something too.
#pragma once

#include <mutex>

namespace torchprof::bridge {

[[nodiscard]] std::unique_lock<std::mutex> lock_switches();

}  // namespace torchprof::bridge
