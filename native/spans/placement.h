// In which trace each event belongs, and what encloses it there.
#pragma once

#include <cstdint>
#include <vector>

#include "core/recording.h"
#include "core/tree.h"
#include "spans/plan.h"

namespace torchprof {

// Events, roots and lanes in one numbering: events by row, then the roots, then the lanes.
using Node = std::uint32_t;

// The events of one device track within one trace.
struct Lane {
  std::uint32_t root = 0;
  std::uint32_t track = 0;
  bool beside_step = false;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

struct Placement {
  // Of each event:
  std::vector<std::uint32_t> root;
  std::vector<Node> parent;  // nearest enclosing event that may be a span, else its lane or root
  std::vector<std::uint8_t> on_device;
  std::vector<std::uint8_t> beside_step;  // not within its root
  std::vector<std::uint8_t> may_be_span;
  std::vector<std::uint8_t> is_root;     // it stands for its root and is no span beside it
  std::vector<std::uint32_t> launchers;  // see find_launchers
  // Of each root: the event that it stands for was still open when recording ended.
  std::vector<std::uint8_t> partial;
  std::vector<Lane> lanes;

  [[nodiscard]] std::size_t events() const noexcept { return root.size(); }
  [[nodiscard]] std::size_t nodes() const noexcept { return events() + partial.size() + lanes.size(); }
  [[nodiscard]] Node root_node(std::size_t root) const noexcept { return static_cast<Node>(events() + root); }
  [[nodiscard]] Node lane_node(std::size_t lane) const noexcept {
    return static_cast<Node>(events() + partial.size() + lane);
  }
  [[nodiscard]] bool is_event(Node node) const noexcept { return node < events(); }
  [[nodiscard]] bool is_lane(Node node) const noexcept { return node >= lane_node(0); }
};

// `roots` by start.
[[nodiscard]] Placement place_events(const Recording& recording, const Tree& tree,
                                     const std::vector<SpanRoot>& roots, const PlanOptions& options);

}  // namespace torchprof
