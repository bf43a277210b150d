#include "spans/plan.h"

#include <algorithm>
#include <stdexcept>

#include "spans/budget.h"
#include "spans/device_work.h"
#include "spans/placement.h"
#include "spans/plan_builder.h"
#include "spans/span_size.h"
#include "spans/utf8.h"

namespace torchprof {
namespace {

constexpr std::string_view kLinkKindNames[] = {"forward_backward", "launch",   "previous_step", "context",
                                               "request",          "crossing", "other"};

// No span is smaller on the wire: a bound on how many a byte budget can hold, before they are measured.
constexpr std::size_t kMinSpanBytes = 64;

void check_roots(const Recording& recording, const std::vector<SpanRoot>& roots) {
  const bool has_root_in_time =
      std::any_of(roots.begin(), roots.end(), [](const SpanRoot& root) { return root.rows.empty(); });
  if (!has_root_in_time) throw std::invalid_argument("a span plan needs at least one root without events");
  for (const SpanRoot& root : roots) {
    if (!root.self.trace.valid() || root.self.span == 0) {
      throw std::invalid_argument("the trace id and span id of a root must not be zero");
    }
    if (root.end_ns < root.start_ns) throw std::invalid_argument("a root ends before it starts");
    if (root.step >= static_cast<std::int64_t>(recording.steps.size())) {
      throw std::invalid_argument("a root refers to a step that the recording does not have");
    }
    for (const std::uint64_t row : root.rows) {
      if (row >= recording.events.size())
        throw std::invalid_argument("a root refers to an event that the recording does not have");
    }
  }
}

void group_rows(const Placement& placement, std::size_t roots, PlanInputs& inputs) {
  std::vector<std::size_t>& offsets = inputs.rows_by_root_offsets;
  offsets.assign(roots + 1, 0);
  for (const std::uint32_t root : placement.root) ++offsets[root + 1];
  for (std::size_t i = 0; i < roots; ++i) offsets[i + 1] += offsets[i];
  inputs.rows_by_root.resize(placement.events());
  std::vector<std::size_t> next(offsets.begin(), offsets.end() - 1);
  for (std::size_t row = 0; row < placement.events(); ++row) {
    inputs.rows_by_root[next[placement.root[row]]++] = static_cast<std::uint32_t>(row);
  }
}

// What each trace may hold; starts at the span budget and shrinks until the bytes fit too.
class Budget {
 public:
  Budget(const PlanOptions& options, const std::vector<RankedNodes>& ranked)
      : max_bytes_(options.max_trace_bytes), ranked_(ranked) {
    for (const RankedNodes& nodes : ranked) {
      const std::size_t all = nodes.host.size() + nodes.device.size();
      max_spans_.push_back(options.max_spans_per_trace == 0 ? all
                                                            : std::min(all, options.max_spans_per_trace - 1));
    }
  }

  [[nodiscard]] std::vector<std::uint8_t> kept(std::size_t nodes) const {
    std::vector<std::uint8_t> kept(nodes);
    for (std::size_t root = 0; root < ranked_.size(); ++root) {
      const RankedNodes& ranked = ranked_[root];
      const SpanQuota quota = share_quota(ranked.host.size(), ranked.device.size(), max_spans_[root]);
      for (std::size_t i = 0; i < quota.host; ++i) kept[ranked.host[i]] = 1;
      for (std::size_t i = 0; i < quota.device; ++i) kept[ranked.device[i]] = 1;
    }
    return kept;
  }

  // False when every trace is within its bytes, or can get no smaller.
  bool shrink(const std::vector<TraceStats>& stats) {
    bool shrunk = false;
    for (std::size_t root = 0; root < stats.size(); ++root) {
      const std::uint64_t size_bytes = stats[root].size_bytes;
      if (max_bytes_ == 0 || size_bytes <= max_bytes_ || max_spans_[root] == 0) continue;
      const double fits = static_cast<double>(max_bytes_) / static_cast<double>(size_bytes);
      // A little less than in proportion: what is folded makes the spans that stay larger.
      const auto proportional = static_cast<std::size_t>(static_cast<double>(max_spans_[root]) * fits * 0.97);
      max_spans_[root] = std::min(proportional, max_spans_[root] - 1);
      shrunk = true;
    }
    return shrunk;
  }

 private:
  std::size_t max_bytes_;
  const std::vector<RankedNodes>& ranked_;
  std::vector<std::size_t> max_spans_;  // of each trace, besides its root
};

}  // namespace

std::string_view link_kind_name(LinkKind kind) noexcept {
  return kLinkKindNames[static_cast<std::size_t>(kind)];
}

std::optional<LinkKind> link_kind_from_name(std::string_view name) noexcept {
  const auto found = std::find(std::begin(kLinkKindNames), std::end(kLinkKindNames), name);
  if (found == std::end(kLinkKindNames)) return std::nullopt;
  return static_cast<LinkKind>(found - std::begin(kLinkKindNames));
}

CaptureIdentity capture_identity(const Recording& recording) noexcept {
  // Imported recordings have no clock of ours.
  const std::int64_t clock_ns = recording.clock_start.realtime_ns;
  return {recording.process_instance, clock_ns != 0 ? clock_ns : recording.start_ns};
}

SpanPlan plan_spans(const Recording& recording, const Tree& tree, const LinkTable& forward_backward,
                    std::vector<SpanRoot> roots, const PlanOptions& options) {
  check_roots(recording, roots);
  std::stable_sort(roots.begin(), roots.end(),
                   [](const SpanRoot& a, const SpanRoot& b) { return a.start_ns < b.start_ns; });

  const Placement placement = place_events(recording, tree, roots, options);
  const SubtreeWork work = sum_subtrees(recording, tree, placement, placement.launchers);
  const RecordedMemory memory = recorded_memory(recording, tree);
  PlanInputs inputs{recording, tree, forward_backward, placement, placement.launchers, work, memory, {}, {}};
  group_rows(placement, roots.size(), inputs);

  std::size_t max_ranked = options.max_spans_per_trace;
  if (options.max_trace_bytes != 0) {
    const std::size_t by_bytes = std::max<std::size_t>(1, options.max_trace_bytes / kMinSpanBytes);
    max_ranked = max_ranked == 0 ? by_bytes : std::min(max_ranked, by_bytes);
  }
  const std::vector<RankedNodes> ranked = rank_nodes(recording, roots, placement, work, max_ranked);

  SpanPlan plan(recording);
  plan.queued = queued_work(recording, placement.launchers);
  plan.roots = std::move(roots);
  for (const Track& track : recording.tracks) {
    plan.track_names.emplace_back(cut_to_bytes(clean_utf8(track.name), kMaxValueBytes));
  }
  Budget budget(options, ranked);
  do {
    const std::vector<std::uint8_t> kept = budget.kept(placement.nodes());
    PlanBuilder(plan, inputs, kept).build();
    if (options.max_trace_bytes != 0) measure_traces(plan);
  } while (budget.shrink(plan.stats));
  for (std::uint32_t i = 0; i < plan.spans.size(); ++i) {
    const PlannedSpan& span = plan.spans[i];
    if (span.type != SpanType::kRoot || !plan.roots[span.root].is_external) plan.sent.push_back(i);
  }
  return plan;
}

}  // namespace torchprof
