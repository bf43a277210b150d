// Puts a plan together from the nodes that are to be spans. Used by plan.cpp alone.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tree.h"
#include "spans/device_work.h"
#include "spans/placement.h"
#include "spans/plan.h"

namespace torchprof {

// All that stays the same whatever the budget leaves.
struct PlanInputs {
  const Recording& recording;
  const Tree& tree;
  const LinkTable& forward_backward;
  const Placement& placement;
  const std::vector<std::uint32_t>& launchers;
  const SubtreeWork& work;
  const RecordedMemory& memory;
  std::vector<std::uint32_t> rows_by_root;        // rows of the first root, then of the second, ...
  std::vector<std::size_t> rows_by_root_offsets;  // one more than roots
};

class PlanBuilder {
 public:
  // `kept`, by node, holds the parent of every node it holds.
  PlanBuilder(SpanPlan& plan, const PlanInputs& inputs, const std::vector<std::uint8_t>& kept);

  void build();

 private:
  struct FoldedEvent {
    std::uint32_t target;  // span
    std::uint32_t text_id;
    std::int64_t time_ns;  // self time, on a device its duration
  };

  void add_trace(std::uint32_t root);
  void add_event(std::uint32_t row);
  void fold_event(std::uint32_t row);
  // The exception that ended an event, on the span that it is.
  void add_error(PlannedSpan& span, std::uint32_t row);
  void name_folded();
  void add_launched_work();
  void add_counted();
  void add_links();
  PlannedSpan& push_span(SpanType type, std::uint32_t root, std::int64_t start_ns, std::int64_t end_ns);
  FoldedEvents& folded_into(std::uint32_t span);
  LaunchedWork& work_of(std::uint32_t span);
  std::uint32_t name_of(std::uint32_t row);
  [[nodiscard]] std::uint32_t function_of(std::uint32_t row) const noexcept;
  [[nodiscard]] std::uint32_t module_of(std::uint64_t row) const noexcept;

  SpanPlan& plan_;
  const PlanInputs& in_;
  const std::vector<std::uint8_t>& kept_;
  std::vector<std::uint32_t> span_of_;  // by node: the span it is, or is folded into; kNone = not sampled
  std::vector<FoldedEvent> folded_events_;
  std::vector<std::uint64_t> thread_seeds_;  // by track
  std::vector<std::uint32_t> first_rows_;    // by track
  bool has_functions_ = false;
  bool has_modules_ = false;
};

// Parts of the builder that other files hold.
struct PendingLink {
  std::uint32_t source = 0;  // span
  std::uint32_t target = 0;
  LinkKind kind = LinkKind::kOther;
  friend auto operator<=>(const PendingLink&, const PendingLink&) = default;
};
// Gives the spans what was counted over them. `span_of`: by row, the span that it is, else kNone.
void add_counters(SpanPlan& plan, const std::vector<std::uint32_t>& span_of);
// Sorts and writes the links of all spans, those of the roots included.
void store_links(SpanPlan& plan, std::vector<PendingLink> pending);

// At most this many of `counts` (of which `time_ns` is the rank) that fit an attribute together.
struct NameTotal {
  std::int64_t time_ns = 0;
  std::uint64_t count = 0;
};
inline constexpr std::size_t kMaxTopNames = 5;
[[nodiscard]] std::vector<NameCount> top_names(const SpanNames& names,
                                               std::vector<std::pair<std::uint32_t, NameTotal>> totals);

}  // namespace torchprof
