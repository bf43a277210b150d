#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>

#include "encode/otlp_encoder.h"
#include "span_fixtures.h"
#include "spans/budget.h"
#include "spans/event_kinds.h"
#include "spans/span_size.h"

using namespace torchprof;
using namespace torchprof::testing;

namespace {

struct TraceTotals {
  std::int64_t cpu_ns = 0;
  std::int64_t device_ns = 0;
  std::uint64_t events = 0;
  friend bool operator==(const TraceTotals&, const TraceTotals&) = default;
};

// What the spans of each trace tell in all: their own and what they folded.
std::vector<TraceTotals> totals_of(const SpanPlan& plan) {
  std::vector<TraceTotals> totals(plan.roots.size());
  for (const PlannedSpan& span : plan.spans) {
    TraceTotals& total = totals[span.root];
    if (span.type != SpanType::kRoot) ++total.events;
    total.cpu_ns += span.self_ns;
    if (span.type == SpanType::kEvent) {
      const auto kind = static_cast<EventKind>(plan.recording.events.kind[span.event]);
      if (is_device_work(kind)) total.device_ns += span.end_ns - span.start_ns;
    }
    if (span.folded == PlannedSpan::kNone) continue;
    const FoldedEvents& folded = plan.folded[span.folded];
    total.events += folded.count;
    total.cpu_ns += folded.self_ns;
    total.device_ns += folded.device_ns;
  }
  return totals;
}

// A recording with several steps, threads, async events, events across steps, kernels with launchers.
Recording random_recording(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  Scene scene;
  const std::uint32_t other = scene.thread(200, 2);
  const std::uint32_t stream = scene.stream(0, 7);
  const std::int64_t steps = 1 + below(4);
  for (std::int64_t i = 0; i < steps; ++i) scene.step(1'000 + i * 10'000, 11'000 + i * 10'000, i);
  const std::int64_t count = 20 + below(300);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t start_ns = below(steps * 10'000 + 2'000);
    const std::int64_t end_ns = start_ns + (below(10) == 0 ? below(9'000) : below(900));
    BuilderEvent event;
    event.track = below(3) == 0 ? other : 0;
    if (below(5) == 0) event.flags = kFlagAsync;
    if (below(4) == 0) event.sequence = below(20);
    if (event.sequence >= 0 && below(2) == 0) event.forward_thread = 1;
    if (below(4) == 0) {
      event.kind = EventKind::kRuntime;
      event.correlation = i;
      scene.event("cudaLaunchKernel", start_ns, end_ns, event);
      BuilderEvent kernel;
      kernel.kind = EventKind::kKernel;
      kernel.track = stream;
      kernel.correlation = below(5) == 0 ? -1 : i;
      const std::int64_t launch_ns = start_ns + below(2'000);
      scene.event("kernel" + std::to_string(below(8)), launch_ns, launch_ns + below(500), kernel);
    } else {
      scene.event("op" + std::to_string(below(12)), start_ns, end_ns, event);
    }
  }
  return scene.builder.finish();
}

void check_plan(const SpanPlan& plan) {
  std::map<std::pair<std::uint64_t, SpanId>, std::size_t> by_id;
  for (std::size_t i = 0; i < plan.spans.size(); ++i) {
    const PlannedSpan& span = plan.spans[i];
    CHECK(by_id.emplace(std::pair(plan.roots[span.root].self.trace.low, span.id), i).second);
  }
  for (const PlannedSpan& span : plan.spans) {
    const std::uint64_t trace = plan.roots[span.root].self.trace.low;
    const SpanId parent = plan.parent_id(span);
    if (parent != plan.roots[span.root].parent) {
      const auto found = by_id.find({trace, parent});
      REQUIRE(found != by_id.end());
      CHECK(plan.spans[found->second].start_ns <= span.start_ns);
      CHECK(plan.spans[found->second].end_ns >= span.end_ns);
    }
    for (std::uint32_t i = 0; i < span.links_count; ++i) {
      const SpanReference& target = plan.links[span.links_begin + i].target;
      CHECK(by_id.count({target.trace.low, target.span}) == 1);
    }
  }
}

}  // namespace

TEST_CASE("kept and folded make up the whole, whatever the budget") {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const Recording recording = random_recording(seed);
    PlanOptions unbounded{.max_spans_per_trace = 0, .max_trace_bytes = 0};
    unbounded.runtime_spans = true;
    const SpanPlan whole = plan_of(recording, unbounded);
    check_plan(whole);
    CHECK(whole.folded.empty());
    const std::vector<TraceTotals> expected = totals_of(whole);
    for (const std::size_t max_spans : {1, 2, 7, 40, 0}) {
      for (const std::size_t max_bytes : {0, 1'500, 6'000}) {
        for (const bool runtime_spans : {true, false}) {
          PlanOptions options{.max_spans_per_trace = max_spans, .max_trace_bytes = max_bytes};
          options.runtime_spans = runtime_spans;
          options.min_span_duration_ns = seed % 3 == 0 ? 50 : 0;
          const SpanPlan plan = plan_of(recording, options);
          check_plan(plan);
          CHECK(totals_of(plan) == expected);
          for (const TraceStats& stats : plan.stats) {
            if (max_spans != 0) CHECK(stats.spans <= max_spans);
            if (max_bytes != 0 && stats.spans > 1) CHECK(stats.size_bytes <= max_bytes);
          }
        }
      }
    }
  }
}

TEST_CASE("the bound on a span's size holds") {
  for (std::uint32_t seed = 100; seed < 120; ++seed) {
    const Recording recording = random_recording(seed);
    const SpanPlan plan = plan_of(recording, {.max_spans_per_trace = 30});
    OtlpOptions one_each;
    one_each.max_request_spans = 1;
    const std::vector<OtlpRequest> encoded = all_requests(plan, one_each);
    REQUIRE(encoded.size() == plan.spans.size());
    for (std::size_t i = 0; i < plan.spans.size(); ++i) {
      // Around a span: three headers, the empty resource and scope.
      CHECK(encoded[i].payload.size() <= max_encoded_bytes(plan, i) + 3 * 4 + 4);
    }
  }
}

TEST_CASE("the cheapest subtrees fold into what encloses them") {
  Scene scene;
  scene.step(0, 1000, 0);
  scene.event("dear", 0, 500);
  scene.event("dear child", 0, 400);
  scene.event("cheap child", 400, 410);
  scene.event("cheap", 600, 620);
  scene.event("cheap grandchild", 600, 610);
  const Recording recording = scene.builder.finish();
  const SpanPlan plan = plan_of(recording, {.max_spans_per_trace = 4});
  REQUIRE(plan.spans.size() == 4);
  CHECK(find_span(plan, "cheap child") == kNotFound);
  CHECK(find_span(plan, "cheap grandchild") == kNotFound);
  const auto dear = attributes_of(plan, find_span(plan, "dear"));
  CHECK(dear.at("torch.folded.count") == Value(std::int64_t{1}));
  CHECK(dear.at("torch.folded.time_ns") == Value(std::int64_t{10}));
  CHECK(dear.at("torch.folded.names") == Value(std::vector<std::string>{"cheap child (1)"}));
  CHECK(plan.stats[0].folded == 2);
}

TEST_CASE("links move to the kept ancestors and are not repeated") {
  Scene scene;
  const std::uint32_t autograd = scene.thread(200, 2);
  scene.step(0, 10'000, 0);
  scene.event("layer", 0, 4'000);
  scene.event("mul", 10, 12, {.sequence = 1});
  scene.event("add", 20, 22, {.sequence = 2});
  scene.event("backward", 5'000, 9'000, {.track = autograd});
  scene.event("AddBackward0", 5'000, 5'002, {.track = autograd, .sequence = 2, .forward_thread = 1});
  scene.event("MulBackward0", 5'010, 5'012, {.track = autograd, .sequence = 1, .forward_thread = 1});
  const Recording recording = scene.builder.finish();
  const SpanPlan plan = plan_of(recording, {.max_spans_per_trace = 3});
  REQUIRE(plan.spans.size() == 3);
  REQUIRE(plan.links.size() == 1);
  CHECK(plan.links[0].target.span == plan.spans[find_span(plan, "layer")].id);
  CHECK(plan.spans[find_span(plan, "backward")].links_count == 1);
}

TEST_CASE("each side has half of the budget and what the other leaves") {
  CHECK(share_quota(1000, 1000, 100).host == 50);
  CHECK(share_quota(1000, 1000, 100).device == 50);
  CHECK(share_quota(10, 1000, 100).device == 90);
  CHECK(share_quota(1000, 10, 100).host == 90);
  CHECK(share_quota(3, 4, 100).host == 3);
  CHECK(share_quota(3, 4, 100).device == 4);
  CHECK(share_quota(5, 5, 0).host == 0);
}

TEST_CASE("the spans kept cover 95 % of what the ops of the step cover") {
  // 1,400 outermost ops with three equally long ops in each: by cost alone their insides would come first.
  Scene scene;
  constexpr std::int64_t kOps = 1400;
  scene.step(0, kOps * 100, 0);
  for (std::int64_t i = 0; i < kOps; ++i) {
    const std::int64_t start_ns = i * 100;
    const std::int64_t end_ns = start_ns + 30 + i % 60;
    scene.event("outer", start_ns, end_ns);
    for (int depth = 0; depth < 3; ++depth) scene.event("inner", start_ns, end_ns);
  }
  const Recording recording = scene.builder.finish();
  const SpanPlan plan = plan_of(recording);
  CHECK(plan.spans.size() == 2000);
  std::int64_t covered_ns = 0;
  std::int64_t total_ns = 0;
  for (const PlannedSpan& span : plan.spans) {
    if (plan.names[span.name].text == "outer") covered_ns += span.end_ns - span.start_ns;
  }
  for (std::int64_t i = 0; i < kOps; ++i) total_ns += 30 + i % 60;
  CHECK(covered_ns * 100 >= total_ns * 95);
}

TEST_CASE("a trace that is all root stays") {
  Scene scene;
  scene.step(0, 1000, 0);
  scene.event("op", 0, 500);
  const Recording recording = scene.builder.finish();
  const SpanPlan plan = plan_of(recording, {.max_spans_per_trace = 2000, .max_trace_bytes = 1});
  REQUIRE(plan.spans.size() == 1);
  CHECK(plan.spans[0].type == SpanType::kRoot);
  CHECK(plan.stats[0].folded == 1);
}
