// Which events of a trace become spans when not all of them may.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/recording.h"
#include "spans/device_work.h"
#include "spans/placement.h"

namespace torchprof {

// Spans that a trace may have besides its root.
struct SpanQuota {
  std::size_t host = 0;
  std::size_t device = 0;
};

// Each side has half of `max_spans` and what the other leaves over.
[[nodiscard]] SpanQuota share_quota(std::size_t host_candidates, std::size_t device_candidates,
                                    std::size_t max_spans) noexcept;

// The nodes of one trace that may be spans, dearest first: a subtree costs the larger of its CPU self time
// and its device time. A parent costs no less than its child and stands before it, so that every prefix is a
// tree, and what is left out are the cheapest subtrees. Before all others come the outermost events that
// make up 95 % of the step's own thread: however cheap their insides, the step must show where it went.
struct RankedNodes {
  std::vector<Node> host;
  std::vector<Node> device;
};
// By root. Ranking stops at `max_spans` nodes a side; 0 = all of them, in no particular order.
[[nodiscard]] std::vector<RankedNodes> rank_nodes(const Recording& recording,
                                                  const std::vector<SpanRoot>& roots,
                                                  const Placement& placement, const SubtreeWork& work,
                                                  std::size_t max_spans);

}  // namespace torchprof
