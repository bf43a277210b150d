#include "spans/placement.h"

#include <algorithm>
#include <stdexcept>
#include <unordered_map>

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

}  // namespace

Placement place_events(const Recording& recording, const Tree& tree, const std::vector<SpanRoot>& roots,
                       const PlanOptions& options) {
  const EventTable& events = recording.events;
  const std::size_t count = events.size();
  if (count + roots.size() >= UINT32_MAX / 2)
    throw std::invalid_argument("the recording has too many events for one plan");

  Placement placement;
  placement.root.resize(count);
  placement.parent.resize(count);
  placement.on_device.resize(count);
  placement.beside_step.resize(count);
  placement.may_be_span.resize(count);
  placement.partial.resize(roots.size());

  // Lanes get their node numbers when the number of events and roots is known, which is now.
  LaneTable lanes(placement.lanes);
  std::size_t current = 0;
  for (std::size_t row = 0; row < count; ++row) {
    const std::int64_t start_ns = events.start_ns[row];
    const std::int64_t end_ns = events.end_ns[row];
    const std::uint32_t track = events.track[row];
    const auto kind = static_cast<EventKind>(events.kind[row]);

    // The step in which it starts; rows of a track come by start, so the search seldom moves.
    if (row == 0 || track != events.track[row - 1]) current = 0;
    while (current + 1 < roots.size() && roots[current + 1].start_ns <= start_ns) ++current;
    const SpanRoot& root = roots[current];
    const bool beside_step = start_ns < root.start_ns || end_ns > root.end_ns;
    const bool on_device = recording.tracks[track].kind == TrackKind::kStream || is_device_work(kind);
    if (start_ns < roots.front().start_ns || start_ns > roots.back().end_ns) placement.partial[current] = 1;

    placement.root[row] = static_cast<std::uint32_t>(current);
    placement.on_device[row] = on_device;
    placement.beside_step[row] = beside_step;
    const std::int64_t enclosing = tree.parent[row];
    const bool same_place = enclosing >= 0 && placement.root[enclosing] == current &&
                            placement.beside_step[enclosing] == placement.beside_step[row] &&
                            placement.on_device[enclosing] == placement.on_device[row];
    if (same_place) {
      placement.parent[row] =
          placement.may_be_span[enclosing] ? static_cast<Node>(enclosing) : placement.parent[enclosing];
    } else if (on_device) {
      const auto root_index = static_cast<std::uint32_t>(current);
      placement.parent[row] =
          placement.lane_node(lanes.cover(root_index, track, beside_step, start_ns, end_ns));
    } else {
      placement.parent[row] = placement.root_node(current);
    }
    // A runtime call is part of the op that made it. One that no op made has only the step to be part of, and
    // would vanish there: what waits for a device at the end of a step is often just such a call.
    const bool made_by_op = is_runtime_call(kind) && placement.parent[row] < count;
    placement.may_be_span[row] =
        end_ns - start_ns >= options.min_span_duration_ns && (options.runtime_spans || !made_by_op);
  }
  return placement;
}

}  // namespace torchprof
