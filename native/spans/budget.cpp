#include "spans/budget.h"

#include <algorithm>

#include "core/tree.h"

namespace torchprof {
namespace {

constexpr std::int64_t kCoveredPercent = 95;

struct Candidate {
  std::int64_t cost_ns;
  Node node;
  bool outermost;  // needed to cover the step
};

class Ranking {
 public:
  Ranking(const Placement& placement, const SubtreeWork& work) : placement_(placement), work_(work) {}

  Candidate candidate(Node node) const {
    return {std::max(work_.cpu_ns[node], work_.device_ns[node]), node, false};
  }

  // Dearer first; among equals a lane before its events and a parent before its children.
  bool operator()(const Candidate& a, const Candidate& b) const noexcept {
    if (a.outermost != b.outermost) return a.outermost;
    if (a.cost_ns != b.cost_ns) return a.cost_ns > b.cost_ns;
    const bool a_is_event = placement_.is_event(a.node);
    const bool b_is_event = placement_.is_event(b.node);
    if (a_is_event != b_is_event) return b_is_event;
    return a.node < b.node;
  }

 private:
  const Placement& placement_;
  const SubtreeWork& work_;
};

// Marks the longest of the outermost events on the step's thread until they cover enough of it.
void mark_outermost(const Recording& recording, const Placement& placement, const SpanRoot& root,
                    Node root_node, std::vector<Candidate>& candidates) {
  const EventTable& events = recording.events;
  const bool has_thread = root.step >= 0;
  const std::uint32_t thread = has_thread ? recording.steps[static_cast<std::size_t>(root.step)].track : 0;
  std::vector<Candidate*> outermost;
  std::int64_t total_ns = 0;
  const auto duration_ns = [&](const Candidate* c) {
    return events.end_ns[c->node] - events.start_ns[c->node];
  };
  for (Candidate& candidate : candidates) {
    const Node row = candidate.node;
    if (placement.parent[row] != root_node || placement.beside_step[row] || is_async(events.flags[row]))
      continue;
    if (has_thread && events.track[row] != thread) continue;
    outermost.push_back(&candidate);
    total_ns += duration_ns(&candidate);
  }
  std::sort(outermost.begin(), outermost.end(), [&](const Candidate* a, const Candidate* b) {
    const std::int64_t a_ns = duration_ns(a);
    const std::int64_t b_ns = duration_ns(b);
    return a_ns != b_ns ? a_ns > b_ns : a->node < b->node;
  });
  std::int64_t covered_ns = 0;
  const std::int64_t enough_ns = total_ns - total_ns / 100 * (100 - kCoveredPercent);
  for (Candidate* candidate : outermost) {
    if (covered_ns >= enough_ns) break;
    candidate->outermost = true;
    covered_ns += duration_ns(candidate);
  }
}

std::vector<Node> dearest(std::vector<Candidate>& candidates, const Ranking& ranking, std::size_t max_spans) {
  if (max_spans != 0) {
    const std::size_t kept = std::min(max_spans, candidates.size());
    const auto middle = candidates.begin() + static_cast<std::ptrdiff_t>(kept);
    std::partial_sort(candidates.begin(), middle, candidates.end(), ranking);
    candidates.erase(middle, candidates.end());
  }
  std::vector<Node> nodes;
  nodes.reserve(candidates.size());
  for (const Candidate& candidate : candidates) nodes.push_back(candidate.node);
  return nodes;
}

}  // namespace

SpanQuota share_quota(std::size_t host_candidates, std::size_t device_candidates,
                      std::size_t max_spans) noexcept {
  const std::size_t device_half = std::min(device_candidates, max_spans / 2);
  const std::size_t host = std::min(host_candidates, max_spans - device_half);
  return {host, std::min(device_candidates, max_spans - host)};
}

std::vector<RankedNodes> rank_nodes(const Recording& recording, const std::vector<SpanRoot>& roots,
                                    const Placement& placement, const SubtreeWork& work,
                                    std::size_t max_spans) {
  struct Candidates {
    std::vector<Candidate> host;
    std::vector<Candidate> device;
  };
  const Ranking ranking(placement, work);
  std::vector<Candidates> by_root(roots.size());
  for (std::size_t lane = 0; lane < placement.lanes.size(); ++lane) {
    by_root[placement.lanes[lane].root].device.push_back(ranking.candidate(placement.lane_node(lane)));
  }
  for (std::size_t row = 0; row < placement.events(); ++row) {
    if (!placement.may_be_span[row]) continue;
    Candidates& candidates = by_root[placement.root[row]];
    (placement.on_device[row] ? candidates.device : candidates.host)
        .push_back(ranking.candidate(static_cast<Node>(row)));
  }

  std::vector<RankedNodes> ranked(roots.size());
  for (std::size_t root = 0; root < roots.size(); ++root) {
    if ((roots[root].trace_flags & 1) == 0) continue;
    Candidates& candidates = by_root[root];
    if (max_spans != 0 && candidates.host.size() > max_spans) {
      mark_outermost(recording, placement, roots[root], placement.root_node(root), candidates.host);
    }
    ranked[root] = {dearest(candidates.host, ranking, max_spans),
                    dearest(candidates.device, ranking, max_spans)};
  }
  return ranked;
}

}  // namespace torchprof
