#include "encode/chrome_layout.h"

#include <algorithm>
#include <limits>

#include "core/tree.h"

namespace torchprof {
namespace {

bool is_user_scope(const EventTable& events, std::uint64_t row) {
  return events.kind[row] == static_cast<std::uint8_t>(EventKind::kUser);
}

bool is_step(const StringPool& strings, const EventTable& events, std::uint64_t row) {
  return is_user_scope(events, row) && strings.name(events.name[row]).starts_with(kStepPrefix);
}

// Slices that are open at a moment. Their ends never rise from bottom to top.
class OpenSlices {
 public:
  explicit OpenSlices(const EventTable& events) : events_(events) {}

  void close_until(std::int64_t time_ns) {
    while (!rows_.empty() && events_.end_ns[rows_.back()] <= time_ns) rows_.pop_back();
  }

  // Those that end before `end_ns`, innermost last.
  [[nodiscard]] std::vector<std::uint64_t>::iterator ending_before(std::int64_t end_ns) {
    return std::partition_point(rows_.begin(), rows_.end(),
                                [&](std::uint64_t row) { return events_.end_ns[row] >= end_ns; });
  }

  std::vector<std::uint64_t>& rows() { return rows_; }

 private:
  const EventTable& events_;
  std::vector<std::uint64_t> rows_;
};

void lay_out_thread(const StringPool& strings, const EventTable& events, std::uint64_t begin,
                    std::uint64_t end, ChromeLayout& layout) {
  OpenSlices open(events);
  std::int64_t steps_end_ns = std::numeric_limits<std::int64_t>::min();
  // Readers look for steps among slices only.
  const auto set_aside = [&](std::uint64_t row) {
    const bool fits = is_step(strings, events, row) && events.start_ns[row] >= steps_end_ns;
    if (fits) steps_end_ns = events.end_ns[row];
    layout.lane[row] = fits ? kBesideTrack : kAsynchronous;
  };
  for (std::uint64_t row = begin; row < end; ++row) {
    if (is_async(events.flags[row])) {
      layout.lane[row] = kAsynchronous;
      continue;
    }
    open.close_until(events.start_ns[row]);
    const auto crossed = open.ending_before(events.end_ns[row]);
    const bool gives_way = is_user_scope(events, row) ||
                           !std::all_of(crossed, open.rows().end(),
                                        [&](std::uint64_t other) { return is_user_scope(events, other); });
    if (crossed != open.rows().end() && gives_way) {
      set_aside(row);
      continue;
    }
    std::for_each(crossed, open.rows().end(), set_aside);
    open.rows().erase(crossed, open.rows().end());
    open.rows().push_back(row);
  }
}

void lay_out_stream(const EventTable& events, std::uint64_t begin, std::uint64_t end, ChromeLayout& layout) {
  std::vector<OpenSlices> lanes(1, OpenSlices(events));
  for (std::uint64_t row = begin; row < end; ++row) {
    layout.lane[row] = kAsynchronous;
    if (is_async(events.flags[row])) continue;
    for (std::size_t lane = 0; lane <= kMaxLanes; ++lane) {
      if (lane == lanes.size()) lanes.emplace_back(events);
      lanes[lane].close_until(events.start_ns[row]);
      if (lanes[lane].ending_before(events.end_ns[row]) != lanes[lane].rows().end()) continue;
      lanes[lane].rows().push_back(row);
      layout.lane[row] = static_cast<std::uint8_t>(lane);
      break;
    }
  }
  if (begin != end) layout.lanes[events.track[begin]] = static_cast<std::uint8_t>(lanes.size() - 1);
}

// Whether one of the steps, which do not overlap and stand in order, crosses a slice among the rows of a
// track.
bool steps_cross(const EventTable& events, const ChromeLayout& layout, const std::vector<const Step*>& steps,
                 std::uint64_t begin, std::uint64_t end) {
  OpenSlices open(events);
  std::uint64_t row = begin;
  const auto is_slice = [&](std::uint64_t of) { return layout.lane[of] == kOnTrack; };
  for (const Step* step : steps) {
    for (; row < end && events.start_ns[row] < step->start_ns; ++row) {
      open.close_until(events.start_ns[row]);
      if (is_slice(row)) open.rows().push_back(row);
    }
    open.close_until(step->start_ns);
    if (!open.rows().empty() && events.end_ns[open.rows().back()] < step->end_ns) return true;
    for (std::uint64_t inner = row; inner < end && events.start_ns[inner] < step->end_ns; ++inner) {
      const bool begins_inside = events.start_ns[inner] > step->start_ns;
      if (is_slice(inner) && begins_inside && events.end_ns[inner] > step->end_ns) return true;
    }
  }
  return false;
}

void lay_out_steps(const Recording& recording, const std::vector<std::uint64_t>& first_row,
                   ChromeLayout& layout) {
  layout.step_lane.assign(recording.steps.size(), kOnTrack);
  std::vector<std::vector<const Step*>> by_track(recording.tracks.size());
  for (std::size_t index = 0; index < recording.steps.size(); ++index) {
    const Step& step = recording.steps[index];
    std::vector<const Step*>& steps = by_track[step.track];
    if (!steps.empty() && step.start_ns < steps.back()->end_ns) {
      layout.step_lane[index] = kAsynchronous;
    } else {
      steps.push_back(&step);
    }
  }
  std::vector<bool> beside(recording.tracks.size());
  for (std::size_t track = 0; track < by_track.size(); ++track) {
    beside[track] =
        steps_cross(recording.events, layout, by_track[track], first_row[track], first_row[track + 1]);
  }
  std::vector<bool> is_taken(recording.tracks.size());  // the lane, by events that are steps
  for (std::uint64_t row = 0; row < layout.lane.size(); ++row) {
    if (layout.lane[row] == kBesideTrack) is_taken[recording.events.track[row]] = true;
  }
  for (std::size_t index = 0; index < recording.steps.size(); ++index) {
    const std::uint32_t track = recording.steps[index].track;
    if (layout.step_lane[index] != kOnTrack || !beside[track]) continue;
    const bool is_stream = recording.tracks[track].kind == TrackKind::kStream;
    layout.step_lane[index] = is_stream || is_taken[track] ? kAsynchronous : kBesideTrack;
  }
}

}  // namespace

ChromeLayout lay_out(const Recording& recording) {
  const EventTable& events = recording.events;
  ChromeLayout layout;
  layout.lane.resize(events.size());
  layout.lanes.resize(recording.tracks.size());

  std::vector<std::uint64_t> first_row(recording.tracks.size() + 1, events.size());
  for (std::uint64_t row = events.size(); row-- > 0;) first_row[events.track[row]] = row;
  for (std::size_t track = recording.tracks.size(); track-- > 0;) {
    first_row[track] = std::min(first_row[track], first_row[track + 1]);
    const std::uint64_t begin = first_row[track];
    const std::uint64_t end = first_row[track + 1];
    if (recording.tracks[track].kind == TrackKind::kStream) {
      lay_out_stream(events, begin, end, layout);
    } else {
      lay_out_thread(recording.strings, events, begin, end, layout);
    }
  }
  lay_out_steps(recording, first_row, layout);
  return layout;
}

}  // namespace torchprof
