#include "core/overruns.h"

#include <cstddef>
#include <vector>

#include "core/side_table_order.h"
#include "core/tree.h"

namespace torchprof {
namespace {

bool runs_on_stream(std::uint8_t kind) noexcept {
  switch (static_cast<EventKind>(kind)) {
    case EventKind::kKernel:
    case EventKind::kMemcpy:
    case EventKind::kMemset:
      return true;
    default:
      return false;
  }
}

void cut_overflows(Recording& recording, std::int64_t limit_ns, OverrunCounts& counts) {
  EventTable& events = recording.events;
  std::size_t previous = events.size();
  for (std::size_t row = 0; row < events.size(); ++row) {
    if (recording.tracks[events.track[row]].kind != TrackKind::kStream || !runs_on_stream(events.kind[row])) {
      continue;
    }
    if (previous < events.size() && events.track[previous] == events.track[row] &&
        events.end_ns[previous] - events.start_ns[row] > limit_ns) {
      events.end_ns[previous] = events.start_ns[row];
      ++counts.overflowed;
    }
    previous = row;
  }
}

}  // namespace

OverrunCounts mend_overruns(Recording& recording, const OverrunLimits& limits) {
  OverrunCounts counts;
  EventTable& events = recording.events;
  cut_overflows(recording, limits.stream_ns, counts);
  // What was cut may now end before what starts with it.
  if (counts.overflowed > 0) order_recording(recording);

  std::vector<std::size_t> open;  // ends never rise from bottom to top
  for (std::size_t row = 0; row < events.size(); ++row) {
    if (row > 0 && events.track[row] != events.track[row - 1]) open.clear();
    if (is_async(events.flags[row])) continue;
    while (!open.empty() && events.end_ns[open.back()] <= events.start_ns[row]) open.pop_back();
    if (!open.empty() && events.end_ns[row] > events.end_ns[open.back()]) {
      const std::int64_t enclosing_end_ns = events.end_ns[open.back()];
      if (events.end_ns[row] - enclosing_end_ns <= limits.rounding_ns) {
        events.end_ns[row] = enclosing_end_ns;
        ++counts.rounded;
      } else {
        ++counts.crossing;
      }
    }
    while (!open.empty() && events.end_ns[open.back()] < events.end_ns[row]) open.pop_back();
    open.push_back(row);
  }
  return counts;
}

}  // namespace torchprof
