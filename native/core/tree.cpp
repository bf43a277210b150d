#include "core/tree.h"

#include <algorithm>
#include <limits>

namespace torchprof {
namespace {

struct OpenEvent {
  std::int64_t row;
  std::int64_t end_ns;
  std::int64_t covered_until_ns;  // end of what children cover so far
};

}  // namespace

Tree build_tree(const Recording& recording) {
  const EventTable& events = recording.events;
  const auto rows = static_cast<std::int64_t>(events.size());
  Tree tree;
  tree.parent.resize(events.size());
  tree.self_ns.resize(events.size());

  // The ends on the stack never rise from bottom to top. An event pushes off all that end before it does:
  // whatever comes later and fits into one of those fits into this one too, which is nearer. So nothing is
  // looked at twice, even where slices cross.
  std::vector<OpenEvent> stack;
  std::uint32_t track = std::numeric_limits<std::uint32_t>::max();
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t start_ns = events.start_ns[row];
    const std::int64_t end_ns = events.end_ns[row];
    if (events.track[row] != track) {
      track = events.track[row];
      stack.clear();
    }
    tree.self_ns[row] = end_ns - start_ns;
    if (is_async(events.flags[row])) {
      const auto above = std::partition_point(
          stack.begin(), stack.end(), [end_ns](const OpenEvent& open) { return open.end_ns >= end_ns; });
      tree.parent[row] = above == stack.begin() ? -1 : std::prev(above)->row;
      continue;
    }
    while (!stack.empty() && stack.back().end_ns < end_ns) stack.pop_back();
    if (stack.empty()) {
      tree.parent[row] = -1;
    } else {
      OpenEvent& parent = stack.back();
      tree.parent[row] = parent.row;
      const std::int64_t uncovered_from_ns = std::max(start_ns, parent.covered_until_ns);
      if (end_ns > uncovered_from_ns) {
        tree.self_ns[parent.row] -= end_ns - uncovered_from_ns;
        parent.covered_until_ns = end_ns;
      }
    }
    stack.push_back({.row = row, .end_ns = end_ns, .covered_until_ns = start_ns});
  }
  return tree;
}

}  // namespace torchprof
