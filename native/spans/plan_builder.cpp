#include "spans/plan_builder.h"

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "spans/event_kinds.h"
#include "spans/utf8.h"

namespace torchprof {
namespace {

// SDKs allow a span 128 links by default; readers expect no more.
constexpr std::uint32_t kMaxLinks = 128;
constexpr std::size_t kMaxCorrelationIds = 32;
// Types are attributes to search and to group by, as names are.
constexpr std::size_t kMaxErrorTypeBytes = 255;

SpanName lane_name(const Track& track) {
  const std::string stream = "stream " + std::to_string(track.thread_id);
  if (track.device < 0 && !track.name.empty()) return host_span_name(track.name);
  SpanName name;
  name.text = track.device < 0 ? stream : "cuda:" + std::to_string(track.device) + " " + stream;
  return name;
}

constexpr std::uint8_t kind_bit(LinkKind kind) noexcept {
  return static_cast<std::uint8_t>(1U << static_cast<unsigned>(kind));
}

}  // namespace

PlanBuilder::PlanBuilder(SpanPlan& plan, const PlanInputs& inputs, const std::vector<std::uint8_t>& kept)
    : plan_(plan), in_(inputs), kept_(kept), span_of_(inputs.placement.nodes(), PlannedSpan::kNone) {
  const Recording& recording = in_.recording;
  first_rows_.resize(recording.tracks.size());
  for (std::size_t row = recording.events.size(); row-- > 0;) {
    first_rows_[recording.events.track[row]] = static_cast<std::uint32_t>(row);
  }
  has_functions_ = std::find(recording.events.kind.begin(), recording.events.kind.end(),
                             static_cast<std::uint8_t>(EventKind::kPython)) != recording.events.kind.end();
  has_modules_ = std::find(recording.events.kind.begin(), recording.events.kind.end(),
                           static_cast<std::uint8_t>(EventKind::kModule)) != recording.events.kind.end();
  const CaptureIdentity capture = capture_identity(recording);
  thread_seeds_.reserve(recording.tracks.size());
  for (std::size_t track = 0; track < recording.tracks.size(); ++track) {
    thread_seeds_.push_back(thread_seed(capture, track));
  }
}

void PlanBuilder::build() {
  plan_.spans.clear();
  plan_.links.clear();
  plan_.folded.clear();
  plan_.work.clear();
  plan_.counted.clear();
  plan_.error_types.clear();
  plan_.stats.assign(plan_.roots.size(), {});
  for (std::uint32_t root = 0; root < plan_.roots.size(); ++root) {
    if ((plan_.roots[root].trace_flags & 1) != 0) add_trace(root);
  }
  name_folded();
  add_launched_work();
  add_counted();
  add_memory(plan_, in_.memory, span_of_);
  add_links();
}

void PlanBuilder::add_counted() {
  if (in_.recording.counters.empty()) return;
  std::vector<std::uint32_t> spans(in_.recording.events.size(), PlannedSpan::kNone);
  for (std::size_t row = 0; row < spans.size(); ++row) {
    if (kept_[row] != 0) spans[row] = span_of_[row];
  }
  add_counters(plan_, spans);
}

PlannedSpan& PlanBuilder::push_span(SpanType type, std::uint32_t root, std::int64_t start_ns,
                                    std::int64_t end_ns) {
  PlannedSpan& span = plan_.spans.emplace_back();
  span.type = type;
  span.root = root;
  span.start_ns = std::max<std::int64_t>(0, start_ns);
  span.end_ns = std::max(span.start_ns, end_ns);
  ++plan_.stats[root].spans;
  return span;
}

FoldedEvents& PlanBuilder::folded_into(std::uint32_t span) {
  std::uint32_t& index = plan_.spans[span].folded;
  if (index == PlannedSpan::kNone) {
    index = static_cast<std::uint32_t>(plan_.folded.size());
    plan_.folded.emplace_back();
  }
  return plan_.folded[index];
}

LaunchedWork& PlanBuilder::work_of(std::uint32_t span) {
  std::uint32_t& index = plan_.spans[span].work;
  if (index == PlannedSpan::kNone) {
    index = static_cast<std::uint32_t>(plan_.work.size());
    plan_.work.emplace_back();
  }
  return plan_.work[index];
}

std::uint32_t PlanBuilder::name_of(std::uint32_t row) {
  const EventTable& events = in_.recording.events;
  return plan_.names.index_of(events.name[row], static_cast<EventKind>(events.kind[row]));
}

void PlanBuilder::add_trace(std::uint32_t root_index) {
  const SpanRoot& root = plan_.roots[root_index];
  const Placement& placement = in_.placement;
  const auto root_span = static_cast<std::uint32_t>(plan_.spans.size());
  span_of_[placement.root_node(root_index)] = root_span;
  PlannedSpan& span = push_span(SpanType::kRoot, root_index, root.start_ns, root.end_ns);
  span.id = root.self.span;
  span.owner = root_span;
  span.name = plan_.names.add(host_span_name(root.name));
  span.track = PlannedSpan::kNone;
  span.partial = placement.partial[root_index] != 0;
  if (root.is_external) --plan_.stats[root_index].spans;
  plan_.stats[root_index].device_ns = in_.work.device_ns[placement.root_node(root_index)];
  if (root.step >= 0) {
    const Step& step = in_.recording.steps[static_cast<std::size_t>(root.step)];
    span.track = step.track;
    span.partial = span.partial || (step.flags & (kStepPartial | kStepUnfinished)) != 0;
  }

  for (std::size_t i = 0; i < placement.lanes.size(); ++i) {
    const Lane& lane = placement.lanes[i];
    if (lane.root != root_index) continue;
    const Node node = placement.lane_node(i);
    if (kept_[node] != 0) {
      span_of_[node] = static_cast<std::uint32_t>(plan_.spans.size());
      PlannedSpan& lane_span = push_span(SpanType::kLane, root_index, lane.start_ns, lane.end_ns);
      lane_span.id = lane_span_id(root.self.span, lane.track, lane.beside_step);
      lane_span.owner = root_span;
      lane_span.name = plan_.names.add(lane_name(in_.recording.tracks[lane.track]));
      lane_span.track = lane.track;
      lane_span.beside_step = lane.beside_step;
    } else {
      span_of_[node] = root_span;
      const std::uint32_t name = plan_.names.add(lane_name(in_.recording.tracks[lane.track]));
      ++folded_into(root_span).count;
      ++plan_.stats[root_index].folded;
      folded_events_.push_back({root_span, plan_.names.text_id(name), 0});
    }
  }

  const std::size_t rows_end = in_.rows_by_root_offsets[root_index + 1];
  for (std::size_t i = in_.rows_by_root_offsets[root_index]; i < rows_end; ++i) {
    const std::uint32_t row = in_.rows_by_root[i];
    kept_[row] != 0 ? add_event(row) : fold_event(row);
  }
}

void PlanBuilder::add_event(std::uint32_t row) {
  const EventTable& events = in_.recording.events;
  const std::uint32_t track = events.track[row];
  span_of_[row] = static_cast<std::uint32_t>(plan_.spans.size());
  PlannedSpan& span =
      push_span(SpanType::kEvent, in_.placement.root[row], events.start_ns[row], events.end_ns[row]);
  span.event = row;
  span.id = event_span_id(thread_seeds_[track], row - first_rows_[track]);
  span.owner = span_of_[in_.placement.parent[row]];
  span.name = name_of(row);
  span.track = track;
  span.self_ns = in_.placement.on_device[row] != 0 ? 0 : in_.tree.self_ns[row];
  span.function = function_of(row);
  if (has_modules_) span.module = module_of(row);
  span.beside_step = in_.placement.beside_step[row] != 0;
  add_error(span, row);
}

void PlanBuilder::add_error(PlannedSpan& span, std::uint32_t row) {
  const EventTable& events = in_.recording.events;
  if (events.error.empty() || events.error[row] == 0) return;
  span.error = static_cast<std::uint32_t>(plan_.error_types.size());
  const std::string type = clean_utf8(in_.recording.strings.name(events.error[row]));
  plan_.error_types.emplace_back(cut_to_bytes(type, kMaxErrorTypeBytes));
}

std::uint32_t PlanBuilder::function_of(std::uint32_t row) const noexcept {
  if (!has_functions_) return PlannedSpan::kNone;
  const EventTable& events = in_.recording.events;
  for (std::int64_t at = row; at >= 0; at = in_.tree.parent[static_cast<std::size_t>(at)]) {
    const auto frame = static_cast<std::size_t>(at);
    if (events.kind[frame] == static_cast<std::uint8_t>(EventKind::kPython)) return events.name[frame];
  }
  return PlannedSpan::kNone;
}

std::uint32_t PlanBuilder::module_of(std::uint64_t row) const noexcept {
  const EventTable& events = in_.recording.events;
  const std::vector<std::uint64_t>& backward = in_.forward_backward.from;  // ascending
  bool is_forward = false;
  for (auto at = static_cast<std::int64_t>(row); at >= 0; at = in_.tree.parent[row]) {
    row = static_cast<std::uint64_t>(at);
    if (events.kind[row] == static_cast<std::uint8_t>(EventKind::kModule)) return events.name[row];
    if (is_forward) continue;
    // A backward op belongs where its forward op does.
    const auto link = std::lower_bound(backward.begin(), backward.end(), row);
    is_forward = link != backward.end() && *link == row;
    if (is_forward) row = in_.forward_backward.to[static_cast<std::size_t>(link - backward.begin())];
  }
  return PlannedSpan::kNone;
}

void PlanBuilder::fold_event(std::uint32_t row) {
  const std::uint32_t target = span_of_[in_.placement.parent[row]];
  span_of_[row] = target;
  if (in_.placement.is_root[row] != 0) {
    plan_.spans[target].self_ns = in_.tree.self_ns[row];
    add_error(plan_.spans[target], row);
    return;
  }
  const bool on_device = in_.placement.on_device[row] != 0;
  const std::int64_t self_ns = on_device ? 0 : in_.tree.self_ns[row];
  const std::int64_t device_ns = on_device ? device_time_ns(in_.recording.events, row) : 0;
  FoldedEvents& folded = folded_into(target);
  ++folded.count;
  folded.self_ns += self_ns;
  folded.device_ns += device_ns;
  ++plan_.stats[in_.placement.root[row]].folded;
  folded_events_.push_back({target, plan_.names.text_id(name_of(row)), self_ns + device_ns});
}

void PlanBuilder::name_folded() {
  std::sort(folded_events_.begin(), folded_events_.end(), [](const FoldedEvent& a, const FoldedEvent& b) {
    return a.target != b.target ? a.target < b.target : a.text_id < b.text_id;
  });
  std::vector<std::pair<std::uint32_t, NameTotal>> totals;
  for (std::size_t i = 0; i < folded_events_.size(); ++i) {
    const FoldedEvent& event = folded_events_[i];
    if (totals.empty() || totals.back().first != event.text_id) totals.push_back({event.text_id, {}});
    totals.back().second.time_ns += event.time_ns;
    ++totals.back().second.count;
    if (i + 1 == folded_events_.size() || folded_events_[i + 1].target != event.target) {
      folded_into(event.target).names = top_names(plan_.names, std::move(totals));
      totals.clear();
    }
  }
}

void PlanBuilder::add_launched_work() {
  const Placement& placement = in_.placement;
  for (std::uint32_t node = 0; node < placement.nodes(); ++node) {
    const std::uint32_t span = span_of_[node];
    const bool is_own_span = span != PlannedSpan::kNone && (!placement.is_event(node) || kept_[node] != 0) &&
                             (!placement.is_lane(node) || kept_[node] != 0);
    const bool is_device_event = placement.is_event(node) && placement.on_device[node] != 0;
    if (!is_own_span || is_device_event || (in_.work.device_ns[node] == 0 && in_.work.kernels[node] == 0))
      continue;
    LaunchedWork& work = work_of(span);
    work.device_ns = in_.work.device_ns[node];
    work.kernels = in_.work.kernels[node];
  }

  // Names: each launch where it was made, then upwards, smaller tables into larger ones.
  using NameTotals = std::unordered_map<std::uint32_t, NameTotal>;
  std::vector<std::unique_ptr<NameTotals>> totals(plan_.spans.size());
  const EventTable& events = in_.recording.events;
  for (std::uint32_t row = 0; row < events.size(); ++row) {
    if (placement.on_device[row] == 0 || !is_device_work(static_cast<EventKind>(events.kind[row]))) continue;
    const std::uint32_t launcher = in_.launchers[row];
    const std::uint32_t span =
        span_of_[launcher != kNoEvent ? launcher : placement.root_node(placement.root[row])];
    if (span == PlannedSpan::kNone) continue;
    if (!totals[span]) totals[span] = std::make_unique<NameTotals>();
    NameTotal& total = (*totals[span])[plan_.names.text_id(name_of(row))];
    total.time_ns += device_time_ns(events, row);
    ++total.count;
    if (plan_.spans[span].type != SpanType::kEvent || events.correlation.empty()) continue;
    std::vector<std::int64_t>& ids = work_of(span).correlation_ids;
    if (events.correlation[row] >= 0 && ids.size() < kMaxCorrelationIds)
      ids.push_back(events.correlation[row]);
  }
  for (std::size_t i = totals.size(); i-- > 0;) {
    if (!totals[i]) continue;
    const auto index = static_cast<std::uint32_t>(i);
    work_of(index).names = top_names(plan_.names, {totals[i]->begin(), totals[i]->end()});
    const std::uint32_t owner = plan_.spans[i].owner;
    if (owner == index) continue;
    if (!totals[owner] || totals[owner]->size() < totals[i]->size()) std::swap(totals[owner], totals[i]);
    if (!totals[i]) continue;
    for (const auto& [text_id, total] : *totals[i]) {
      NameTotal& sum = (*totals[owner])[text_id];
      sum.time_ns += total.time_ns;
      sum.count += total.count;
    }
    totals[i].reset();
  }
}

void PlanBuilder::add_links() {
  const EventTable& events = in_.recording.events;
  std::vector<PendingLink> pending;
  const auto add = [&](std::uint64_t from, std::uint64_t to, LinkKind kind) {
    if (from >= events.size() || to >= events.size()) return;
    const std::uint32_t source = span_of_[from];
    const std::uint32_t target = span_of_[to];
    if (source == PlannedSpan::kNone || target == PlannedSpan::kNone || source == target) return;
    // Folded ops hand their links on to the op around them; a step or lane would collect those of thousands.
    if (plan_.spans[source].type != SpanType::kEvent) return;
    const std::uint32_t own_root = span_of_[in_.placement.root_node(plan_.spans[source].root)];
    if (target == own_root) return;
    pending.push_back({source, target, kind});
  };

  for (std::size_t i = 0; i < in_.forward_backward.from.size(); ++i) {
    add(in_.forward_backward.from[i], in_.forward_backward.to[i], LinkKind::kForwardBackward);
  }
  for (std::uint32_t row = 0; row < in_.launchers.size(); ++row) {
    if (in_.launchers[row] != kNoEvent && kept_[row] != 0) add(row, in_.launchers[row], LinkKind::kLaunch);
  }
  const LinkTable& explicit_links = in_.recording.links;
  for (std::size_t i = 0; i < explicit_links.type.size(); ++i) {
    const auto type = static_cast<LinkType>(explicit_links.type[i]);
    if (type == LinkType::kLaunch) continue;  // in `launchers`
    add(explicit_links.from[i], explicit_links.to[i],
        type == LinkType::kForwardBackward ? LinkKind::kForwardBackward : LinkKind::kOther);
  }
  for (std::uint32_t i = 0; i < plan_.spans.size(); ++i) {
    const PlannedSpan& span = plan_.spans[i];
    const bool stands_beside = span.beside_step && plan_.spans[span.owner].type == SpanType::kRoot;
    if (stands_beside) pending.push_back({i, span.owner, LinkKind::kCrossing});
  }
  store_links(plan_, std::move(pending));
}

void store_links(SpanPlan& plan, std::vector<PendingLink> pending) {
  std::sort(pending.begin(), pending.end());
  pending.erase(std::unique(pending.begin(), pending.end()), pending.end());
  auto next = pending.begin();
  for (std::uint32_t i = 0; i < plan.spans.size(); ++i) {
    PlannedSpan& span = plan.spans[i];
    span.links_begin = static_cast<std::uint32_t>(plan.links.size());
    if (span.type == SpanType::kRoot) {
      const std::vector<SpanLink>& links = plan.roots[span.root].links;
      plan.links.insert(plan.links.end(), links.begin(), links.end());
      span.links_count = static_cast<std::uint32_t>(links.size());
    }
    for (; next != pending.end() && next->source == i; ++next) {
      if (span.links_count == kMaxLinks) {
        ++span.dropped_links;
        continue;
      }
      PlannedSpan& target = plan.spans[next->target];
      plan.links.push_back({{plan.roots[target.root].self.trace, target.id}, next->kind});
      ++span.links_count;
      span.link_kinds |= kind_bit(next->kind);
      if (target.type == SpanType::kEvent) target.link_kinds |= kind_bit(next->kind);
    }
  }
}

std::vector<NameCount> top_names(const SpanNames& names,
                                 std::vector<std::pair<std::uint32_t, NameTotal>> totals) {
  const std::size_t count = std::min(kMaxTopNames, totals.size());
  std::partial_sort(totals.begin(), totals.begin() + static_cast<std::ptrdiff_t>(count), totals.end(),
                    [&](const auto& a, const auto& b) {
                      if (a.second.time_ns != b.second.time_ns) return a.second.time_ns > b.second.time_ns;
                      if (a.second.count != b.second.count) return a.second.count > b.second.count;
                      return names.text(a.first) < names.text(b.first);
                    });
  std::vector<NameCount> top;
  std::size_t size_bytes = 0;
  for (std::size_t i = 0; i < count; ++i) {
    size_bytes += names.text(totals[i].first).size();
    if (size_bytes > kMaxValueBytes) break;
    top.push_back({totals[i].first, totals[i].second.count});
  }
  return top;
}

}  // namespace torchprof
