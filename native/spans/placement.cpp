#include "spans/placement.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <unordered_map>

#include "spans/device_work.h"
#include "spans/event_kinds.h"

namespace torchprof {
namespace {

// Finds or makes the lane of a track in a trace and stretches it over one more event.
class LaneTable {
 public:
  explicit LaneTable(std::vector<Lane>& lanes) : lanes_(lanes) {}

  std::size_t cover(std::uint32_t root, std::uint32_t track, bool beside_step, std::int64_t start_ns,
                    std::int64_t end_ns) {
    const std::uint64_t key = (static_cast<std::uint64_t>(root) << 32) | (track << 1) | (beside_step ? 1 : 0);
    const auto [found, inserted] = index_.try_emplace(key, lanes_.size());
    if (inserted) lanes_.push_back({root, track, beside_step, start_ns, end_ns});
    Lane& lane = lanes_[found->second];
    lane.start_ns = std::min(lane.start_ns, start_ns);
    lane.end_ns = std::max(lane.end_ns, end_ns);
    return found->second;
  }

 private:
  std::vector<Lane>& lanes_;
  std::unordered_map<std::uint64_t, std::size_t> index_;
};

// Which root an event belongs to that something else than time decides about.
class RootsByEvent {
 public:
  explicit RootsByEvent(const std::vector<SpanRoot>& roots) {
    for (std::size_t root = 0; root < roots.size(); ++root) {
      if (roots[root].rows.empty()) in_time_.push_back(root);
      for (const std::uint64_t row : roots[root].rows) by_row_.emplace(row, root);
    }
  }

  [[nodiscard]] bool empty() const noexcept { return by_row_.empty(); }
  // Roots without rows, by start.
  [[nodiscard]] const std::vector<std::size_t>& in_time() const noexcept { return in_time_; }
  [[nodiscard]] std::optional<std::size_t> at(std::uint64_t row) const {
    const auto found = by_row_.find(row);
    return found != by_row_.end() ? std::optional(found->second) : std::nullopt;
  }

 private:
  std::vector<std::size_t> in_time_;
  std::unordered_map<std::uint64_t, std::size_t> by_row_;
};

class Placer {
 public:
  Placer(const Recording& recording, const Tree& tree, const std::vector<SpanRoot>& roots,
         const PlanOptions& options, Placement& placement)
      : recording_(recording),
        tree_(tree),
        roots_(roots),
        options_(options),
        placement_(placement),
        by_event_(roots),
        lanes_(placement.lanes) {}

  void place() {
    const std::size_t count = recording_.events.size();
    for (std::size_t row = 0; row < count; ++row) {
      const TrackKind track = recording_.tracks[recording_.events.track[row]].kind;
      placement_.on_device[row] = track == TrackKind::kStream || is_device_work(kind_of(row));
    }
    placement_.launchers = find_launchers(recording_, placement_);
    // What was launched follows what launched it.
    for (const bool on_device : {false, true}) {
      for (std::size_t row = 0; row < count; ++row) {
        if ((placement_.on_device[row] != 0) == on_device) place_event(row);
      }
    }
  }

 private:
  [[nodiscard]] EventKind kind_of(std::size_t row) const noexcept {
    return static_cast<EventKind>(recording_.events.kind[row]);
  }

  void place_event(std::size_t row) {
    const EventTable& events = recording_.events;
    const std::int64_t start_ns = events.start_ns[row];
    const std::int64_t end_ns = events.end_ns[row];
    const std::int64_t enclosing = tree_.parent[row];
    const std::optional<std::size_t> own = own_root(row, enclosing);
    const std::size_t root_index = own ? *own : root_in_time(row);
    const SpanRoot& root = roots_[root_index];
    const bool beside_step = !own && (start_ns < root.start_ns || end_ns > root.end_ns);
    const bool on_device = placement_.on_device[row] != 0;
    if ((events.flags[row] & kFlagUnfinished) != 0 && own) placement_.partial[root_index] = 1;

    placement_.root[row] = static_cast<std::uint32_t>(root_index);
    placement_.beside_step[row] = beside_step;
    const bool same_place = enclosing >= 0 && placement_.root[enclosing] == root_index &&
                            placement_.beside_step[enclosing] == placement_.beside_step[row] &&
                            placement_.on_device[enclosing] == placement_.on_device[row];
    if (same_place) {
      placement_.parent[row] =
          placement_.may_be_span[enclosing] ? static_cast<Node>(enclosing) : placement_.parent[enclosing];
    } else if (on_device) {
      placement_.parent[row] = placement_.lane_node(lanes_.cover(
          static_cast<std::uint32_t>(root_index), events.track[row], beside_step, start_ns, end_ns));
    } else {
      placement_.parent[row] = placement_.root_node(root_index);
    }
    placement_.is_root[row] = !root.is_external && !root.rows.empty() && root.rows.front() == row;
    // A runtime call is part of the op that made it. One that no op made has only the step to be part of, and
    // would vanish there: what waits for a device at the end of a step is often just such a call.
    const bool made_by_op =
        is_runtime_call(kind_of(row)) && placement_.parent[row] < recording_.events.size();
    placement_.may_be_span[row] = placement_.is_root[row] == 0 &&
                                  end_ns - start_ns >= options_.min_span_duration_ns &&
                                  (options_.runtime_spans || !made_by_op);
  }

  // The root of the event itself, of what encloses it or of what launched it, when that is no root in time.
  [[nodiscard]] std::optional<std::size_t> own_root(std::size_t row, std::int64_t enclosing) const {
    if (by_event_.empty()) return std::nullopt;
    std::optional<std::size_t> around;
    const std::uint32_t launcher = placement_.launchers[row];
    const std::int64_t from = launcher != kNoEvent ? launcher : enclosing;
    if (from >= 0 && !roots_[placement_.root[from]].rows.empty()) around = placement_.root[from];
    const std::optional<std::size_t> own = by_event_.at(row);
    // Of one trace, what encloses it is the nearer parent.
    const bool same_trace = own && around && roots_[*own].self.trace == roots_[*around].self.trace;
    return own && !same_trace ? own : around;
  }

  // The step in which it starts; rows of a track come by start, so the search seldom moves.
  [[nodiscard]] std::size_t root_in_time(std::size_t row) {
    const std::vector<std::size_t>& in_time = by_event_.in_time();
    const std::int64_t start_ns = recording_.events.start_ns[row];
    const std::uint32_t track = recording_.events.track[row];
    if (track != track_) current_ = 0;
    track_ = track;
    while (current_ + 1 < in_time.size() && roots_[in_time[current_ + 1]].start_ns <= start_ns) ++current_;
    return in_time[current_];
  }

  const Recording& recording_;
  const Tree& tree_;
  const std::vector<SpanRoot>& roots_;
  const PlanOptions& options_;
  Placement& placement_;
  const RootsByEvent by_event_;
  // Lanes get their node numbers when the number of events and roots is known, which is before.
  LaneTable lanes_;
  std::size_t current_ = 0;
  std::uint32_t track_ = UINT32_MAX;
};

}  // namespace

Placement place_events(const Recording& recording, const Tree& tree, const std::vector<SpanRoot>& roots,
                       const PlanOptions& options) {
  const std::size_t count = recording.events.size();
  if (count + roots.size() >= UINT32_MAX / 2)
    throw std::invalid_argument("the recording has too many events for one plan");

  Placement placement;
  placement.root.resize(count);
  placement.parent.resize(count);
  placement.on_device.resize(count);
  placement.beside_step.resize(count);
  placement.may_be_span.resize(count);
  placement.is_root.resize(count);
  placement.partial.resize(roots.size());
  Placer(recording, tree, roots, options, placement).place();
  return placement;
}

}  // namespace torchprof
