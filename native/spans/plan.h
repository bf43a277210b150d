// A Recording as spans: which events become spans, under which parent, in which trace, with which links.
// What does not fit a trace's budget is folded into the span that encloses it, to the nanosecond.
//
//   Recording + Tree --placement--> trace and parent of each event
//                    --device_work--> device time of each event and all it encloses
//                    --budget--> the events that become spans
//                    --plan, plan_links--> SpanPlan, read by attributes.h and encode/
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/recording.h"
#include "core/tree.h"
#include "spans/ids.h"
#include "spans/launch_queue.h"
#include "spans/span_memory.h"
#include "spans/span_name.h"

namespace torchprof {

enum class LinkKind : std::uint8_t {
  kForwardBackward = 0,
  kLaunch = 1,
  kPreviousStep = 2,
  kContext = 3,
  kRequest = 4,
  kCrossing = 5,
  kOther = 6,
};
[[nodiscard]] std::string_view link_kind_name(LinkKind kind) noexcept;
[[nodiscard]] std::optional<LinkKind> link_kind_from_name(std::string_view name) noexcept;

struct SpanLink {
  SpanReference target;
  LinkKind kind = LinkKind::kOther;
};

// Something that the caller has to say of a root, at a time within it.
struct SpanEvent {
  using Value = std::variant<std::int64_t, std::string>;

  std::string name;
  std::int64_t time_ns = 0;
  std::vector<std::pair<std::string, Value>> attributes;
};

// The top span of one trace: a step, or the whole capture.
struct SpanRoot {
  SpanReference self;
  SpanId parent = 0;             // in the same trace; 0 = none
  std::uint8_t trace_flags = 1;  // without the sampled bit neither the root nor what it holds becomes spans
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t step = -1;    // index into Recording::steps, -1 for a capture
  std::int64_t number = -1;  // of the step, -1 = none
  std::string name = std::string(kStepSpanName);
  // Where it stands in the way of time: the events that it begins at, with all that they enclose and launch.
  // A root without any holds what starts before the next such root and belongs to no other.
  std::vector<std::uint64_t> rows;
  // The span exists already, as somebody else's: only what it holds becomes spans. Else the first of `rows`
  // is the root itself.
  bool is_external = false;
  std::vector<SpanLink> links;  // to contexts of the caller
  std::vector<SpanEvent> events;
};

struct PlanOptions {
  std::size_t max_spans_per_trace = 2000;   // 0 = no bound
  std::size_t max_trace_bytes = 2'000'000;  // 0 = no bound
  std::int64_t min_span_duration_ns = 0;    // shorter events are folded
  bool runtime_spans = false;               // runtime and driver calls as spans of their own
};

enum class SpanType : std::uint8_t { kRoot, kLane, kEvent };

// A name and how many events bear it.
struct NameCount {
  std::uint32_t text_id = 0;  // of SpanNames
  std::uint64_t count = 0;
};

// The events that became no spans of their own but part of this one.
struct FoldedEvents {
  std::uint64_t count = 0;
  std::int64_t self_ns = 0;      // CPU self time
  std::int64_t device_ns = 0;    // durations of folded kernels, copies and memsets
  std::vector<NameCount> names;  // those that took longest
};

// Device work launched by a span and by what it encloses, folded or not.
struct LaunchedWork {
  std::int64_t device_ns = 0;
  std::uint64_t kernels = 0;
  std::vector<NameCount> names;               // those that took longest
  std::vector<std::int64_t> correlation_ids;  // of what the span itself launched
};

// What was counted over a span, on its thread or, for a step, on all threads.
struct CounterTotal {
  std::uint32_t attribute = 0;  // index into SpanPlan::counter_attributes
  std::int64_t value = 0;
};
struct CountedOver {
  std::vector<CounterTotal> totals;
  std::vector<std::uint32_t> estimated;  // attributes whose value was scaled up
};

struct PlannedSpan {
  static constexpr std::uint32_t kNone = UINT32_MAX;

  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t self_ns = 0;  // events on threads
  SpanId id = 0;
  std::uint64_t event = 0;  // row of the recording; kEvent only
  std::uint32_t root = 0;   // index into SpanPlan::roots
  std::uint32_t owner = 0;  // span that encloses this one, or the root that it stands beside
  std::uint32_t name = 0;   // index into SpanPlan::names
  std::uint32_t track = 0;  // of the event, lane or step
  std::uint32_t links_begin = 0;
  std::uint32_t links_count = 0;
  std::uint32_t dropped_links = 0;
  std::uint32_t folded = kNone;    // index into SpanPlan::folded
  std::uint32_t work = kNone;      // index into SpanPlan::work
  std::uint32_t memory = kNone;    // index into SpanPlan::memory
  std::uint32_t counted = kNone;   // index into SpanPlan::counted
  std::uint32_t error = kNone;     // index into SpanPlan::error_types
  std::uint32_t function = kNone;  // name id of the Python function that it is, or else that called it
  std::uint32_t module = kNone;    // name id of the module call that it is, or else that it is part of
  SpanType type = SpanType::kEvent;
  std::uint8_t link_kinds = 0;  // bit 1 << LinkKind for each link that begins or ends here
  bool beside_step = false;     // outlasts its step: not its child but its sibling
  bool partial = false;         // roots: not recorded as a whole
};

struct TraceStats {
  std::uint64_t spans = 0;
  std::uint64_t folded = 0;
  std::uint64_t size_bytes = 0;  // at most, on the wire; 0 when no bound on bytes was asked for
  std::int64_t device_ns = 0;    // of kernels, copies and memsets, folded or not
};

// Refers to the Recording it was made from.
struct SpanPlan {
  explicit SpanPlan(const Recording& source) : recording(source), names(source.strings) {}

  const Recording& recording;
  std::vector<SpanRoot> roots;      // by start
  std::vector<TraceStats> stats;    // of each root
  std::vector<PlannedSpan> spans;   // parents before children
  std::vector<std::uint32_t> sent;  // of them, those that are not somebody else's
  std::vector<SpanLink> links;
  std::vector<FoldedEvents> folded;
  std::vector<LaunchedWork> work;
  std::vector<QueuedWork> queued;  // by event
  std::vector<SpanMemory> memory;
  std::vector<CountedOver> counted;
  std::vector<std::string> counter_attributes;
  std::vector<std::string> error_types;  // clean UTF-8
  std::vector<std::string> track_names;  // clean UTF-8
  SpanNames names;

  // What the caller has to say of the span.
  [[nodiscard]] const std::vector<SpanEvent>& events(const PlannedSpan& span) const noexcept {
    static const std::vector<SpanEvent> none;
    return span.type == SpanType::kRoot ? roots[span.root].events : none;
  }

  // The type of the exception that ended what the span is of; empty when none did.
  [[nodiscard]] std::string_view error_type(const PlannedSpan& span) const noexcept {
    return span.error == PlannedSpan::kNone ? std::string_view() : error_types[span.error];
  }
  // Why the status of the span is an error; empty when it is unset.
  [[nodiscard]] std::string_view error(const PlannedSpan& span) const noexcept {
    const std::string_view failed =
        span.memory == PlannedSpan::kNone ? std::string_view() : memory_error(memory[span.memory]);
    return failed.empty() ? error_type(span) : failed;
  }

  [[nodiscard]] SpanId parent_id(const PlannedSpan& span) const noexcept {
    if (span.type == SpanType::kRoot) return roots[span.root].parent;
    const PlannedSpan& owner = spans[span.owner];
    // Beside its step, a span has the step's own parent.
    return span.beside_step && owner.type == SpanType::kRoot ? roots[span.root].parent : owner.id;
  }
};

// What the span ids of a recording follow from; the same for a saved and reopened one.
[[nodiscard]] CaptureIdentity capture_identity(const Recording& recording) noexcept;

// `forward_backward`: pairs of a backward op and its forward op. Throws std::invalid_argument without
// roots, or for a root with a zero id or with its end before its start.
[[nodiscard]] SpanPlan plan_spans(const Recording& recording, const Tree& tree,
                                  const LinkTable& forward_backward, std::vector<SpanRoot> roots,
                                  const PlanOptions& options);

}  // namespace torchprof
