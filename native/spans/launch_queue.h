// How long work waited on its stream between the call that launched it and its start, and behind how much.
#pragma once

#include <cstdint>
#include <vector>

#include "core/recording.h"

namespace torchprof {

// A kernel, copy or memset that a call of the runtime or the driver launched.
struct QueuedWork {
  std::uint64_t event = 0;    // row
  std::int64_t delay_ns = 0;  // from the end of the call to the start; 0 when it began before that
  std::int64_t queue_depth =
      0;  // pieces of work before it on its stream that had not ended when the call did
};

// `launchers`: of each event on a device, the event that launched it. Ascending by event. On a stream work
// runs in the order in which it starts.
[[nodiscard]] std::vector<QueuedWork> queued_work(const Recording& recording,
                                                  const std::vector<std::uint32_t>& launchers);

// nullptr: nothing is known of its launch.
[[nodiscard]] const QueuedWork* find_queued_work(const std::vector<QueuedWork>& queued,
                                                 std::uint64_t event) noexcept;

// `duration_ns` is above 0. As much as an integer holds.
[[nodiscard]] std::int64_t bytes_per_second(std::int64_t size_bytes, std::int64_t duration_ns) noexcept;

}  // namespace torchprof
