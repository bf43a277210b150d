#include "spans/launch_queue.h"

#include <algorithm>
#include <limits>

#include "spans/device_work.h"
#include "spans/event_kinds.h"

namespace torchprof {

std::vector<QueuedWork> queued_work(const Recording& recording, const std::vector<std::uint32_t>& launchers) {
  const EventTable& events = recording.events;
  std::vector<QueuedWork> queued;
  std::vector<std::int64_t> reach_ns;  // of the work of the track so far: when all up to it had ended
  for (std::size_t row = 0; row < events.size(); ++row) {
    if (row == 0 || events.track[row] != events.track[row - 1]) reach_ns.clear();
    if (!is_device_work(static_cast<EventKind>(events.kind[row]))) continue;
    const std::uint32_t launcher = launchers[row];
    if (launcher != kNoEvent && is_runtime_call(static_cast<EventKind>(events.kind[launcher]))) {
      const std::int64_t launched_ns = events.end_ns[launcher];
      const auto unended = std::upper_bound(reach_ns.begin(), reach_ns.end(), launched_ns);
      queued.push_back({row, std::max<std::int64_t>(0, events.start_ns[row] - launched_ns),
                        static_cast<std::int64_t>(reach_ns.end() - unended)});
    }
    reach_ns.push_back(reach_ns.empty() ? events.end_ns[row] : std::max(reach_ns.back(), events.end_ns[row]));
  }
  return queued;
}

const QueuedWork* find_queued_work(const std::vector<QueuedWork>& queued, std::uint64_t event) noexcept {
  const auto found =
      std::lower_bound(queued.begin(), queued.end(), event,
                       [](const QueuedWork& work, std::uint64_t wanted) { return work.event < wanted; });
  return found != queued.end() && found->event == event ? &*found : nullptr;
}

std::int64_t bytes_per_second(std::int64_t size_bytes, std::int64_t duration_ns) noexcept {
  const double rate = static_cast<double>(size_bytes) / static_cast<double>(duration_ns) * 1e9;
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  return rate < static_cast<double>(kMost) ? static_cast<std::int64_t>(rate) : kMost;
}

}  // namespace torchprof
