#include <doctest/doctest.h>

#include <stdexcept>

#include "span_fixtures.h"

using namespace torchprof;
using namespace torchprof::testing;

namespace {

SpanId parent_of(const SpanPlan& plan, std::string_view name) {
  return plan.parent_id(plan.spans[find_span(plan, name)]);
}

SpanId id_of(const SpanPlan& plan, std::string_view name, std::size_t n = 0) {
  return plan.spans[find_span(plan, name, n)].id;
}

std::vector<SpanLink> links_of(const SpanPlan& plan, std::string_view name) {
  const PlannedSpan& span = plan.spans[find_span(plan, name)];
  const auto begin = plan.links.begin() + span.links_begin;
  return {begin, begin + span.links_count};
}

constexpr std::uint8_t kUserScope = 7;

}  // namespace

TEST_CASE("events become children of the event around them, or of their step") {
  Scene scene;
  scene.step(0, 1000, 4);
  scene.event("linear", 100, 400);
  scene.event("addmm", 150, 350, {.sequence = 9});
  scene.event("relu", 500, 600, {.kind = EventKind::kUser, .scope = kUserScope});
  const Recording recording = scene.builder.finish();
  const SpanPlan plan = plan_of(recording);

  REQUIRE(plan.spans.size() == 4);
  const PlannedSpan& step = plan.spans[0];
  CHECK(plan.names[step.name].text == "torch.step");
  CHECK(step.id == 1);
  CHECK(plan.parent_id(step) == 1000);
  CHECK(parent_of(plan, "linear") == 1);
  CHECK(parent_of(plan, "addmm") == id_of(plan, "linear"));
  CHECK(parent_of(plan, "relu") == 1);

  const auto step_attributes = attributes_of(plan, 0);
  CHECK(step_attributes.at("torch.step.number") == Value(std::int64_t{4}));
  CHECK(step_attributes.at("thread.id") == Value(std::int64_t{100}));
  CHECK(step_attributes.count("torch.step.partial") == 0);
  const auto linear = attributes_of(plan, find_span(plan, "linear"));
  CHECK(linear.at("torch.self_time_ns") == Value(std::int64_t{100}));
  CHECK(linear.at("thread.name") == Value(std::string("main")));
  CHECK(linear.at("torch.scope") == Value(std::string("function")));
  CHECK(linear.count("torch.sequence_number") == 0);
  CHECK(attributes_of(plan, find_span(plan, "addmm")).at("torch.sequence_number") == Value(std::int64_t{9}));
  CHECK(attributes_of(plan, find_span(plan, "relu")).at("torch.scope") == Value(std::string("user_scope")));
}

TEST_CASE("an event belongs to the step in which it starts, on any thread") {
  Scene scene;
  const std::uint32_t other = scene.thread(200, 2);
  scene.step(0, 100, 0);
  scene.step(100, 200, 1);
  scene.event("a", 10, 90);
  scene.event("b", 20, 80, {.track = other});
  scene.event("c", 100, 110, {.track = other});
  const Recording recording = scene.builder.finish();
  const SpanPlan plan = plan_of(recording);
  CHECK(plan.spans[find_span(plan, "a")].root == 0);
  CHECK(plan.spans[find_span(plan, "b")].root == 0);
  CHECK(plan.spans[find_span(plan, "c")].root == 1);
  CHECK(parent_of(plan, "c") == 2);
}

TEST_CASE("an event that outlasts its step stands beside it, what it holds goes to the steps") {
  Scene scene;
  scene.step(0, 100, 0);
  scene.step(100, 200, 1);
  scene.event("epoch", 5, 195);
  scene.event("first", 10, 90);
  scene.event("across", 50, 150, {.flags = kFlagAsync});
  scene.event("second", 120, 180);
  const Recording recording = scene.builder.finish();
  const SpanPlan plan = plan_of(recording);

  CHECK(plan.spans[find_span(plan, "epoch")].root == 0);
  CHECK(parent_of(plan, "epoch") == 1000);
  CHECK(parent_of(plan, "first") == 1);
  CHECK(parent_of(plan, "second") == 2);
  CHECK(attributes_of(plan, find_span(plan, "epoch")).at("torch.step.crossing") == Value(true));
  CHECK(attributes_of(plan, find_span(plan, "first")).count("torch.step.crossing") == 0);
  REQUIRE(links_of(plan, "epoch").size() == 1);
  CHECK(links_of(plan, "epoch")[0].target == SpanReference{{0, 1}, 1});
  CHECK(links_of(plan, "epoch")[0].kind == LinkKind::kCrossing);
  // It crosses its step inside `epoch`, which crosses too: still enclosed by it.
  CHECK(parent_of(plan, "across") == id_of(plan, "epoch"));
  CHECK(links_of(plan, "across").empty());
}

TEST_CASE("events outside all steps go to the nearest step, which is as whole as it was recorded") {
  Scene scene;
  scene.step(100, 200, 0);
  scene.step(200, 300, 1);
  scene.event("before", 10, 20);
  scene.event("after", 310, 320);
  const Recording recording = scene.builder.finish();
  const SpanPlan plan = plan_of(recording);
  CHECK(plan.spans[find_span(plan, "before")].root == 0);
  CHECK(plan.spans[find_span(plan, "after")].root == 1);
  CHECK(parent_of(plan, "before") == 1000);
  CHECK(parent_of(plan, "after") == 1001);
  for (const char* name : {"before", "after"}) {
    CHECK(attributes_of(plan, find_span(plan, name)).at("torch.step.crossing") == Value(true));
  }
  for (const std::uint32_t root : {0U, 1U}) {
    CHECK(attributes_of(plan, find_span(plan, "torch.step", root)).count("torch.step.partial") == 0);
  }
}

TEST_CASE("backward ops link to their forward ops, and both ends say so") {
  Scene scene;
  const std::uint32_t autograd = scene.thread(200, 2);
  scene.step(0, 1000, 0);
  scene.event("mul", 100, 200, {.sequence = 5});
  scene.event("MulBackward0", 500, 600, {.track = autograd, .scope = 1, .sequence = 5, .forward_thread = 1});
  const Recording recording = scene.builder.finish();
  const SpanPlan plan = plan_of(recording);
  REQUIRE(links_of(plan, "MulBackward0").size() == 1);
  CHECK(links_of(plan, "MulBackward0")[0].target == SpanReference{{0, 1}, id_of(plan, "mul")});
  const auto forward = attributes_of(plan, find_span(plan, "mul"));
  const auto backward = attributes_of(plan, find_span(plan, "MulBackward0"));
  for (const auto& attributes : {forward, backward}) {
    CHECK(attributes.at("torch.link.type") == Value(std::string("forward_backward")));
    CHECK(attributes.at("torch.sequence_number") == Value(std::int64_t{5}));
  }
  CHECK(forward.at("torch.autograd_thread.id") == backward.at("torch.forward_thread.id"));
}

TEST_CASE("kernels hang under lanes, link to what launched them and are summed on it") {
  Scene scene;
  const std::uint32_t stream = scene.stream(0, 7);
  scene.step(0, 1000, 0);
  scene.event("module", 50, 450);
  scene.event("linear", 100, 400);
  scene.event("cudaLaunchKernel", 150, 160, {.kind = EventKind::kRuntime, .correlation = 42});
  scene.event("cudaLaunchKernel", 170, 180, {.kind = EventKind::kRuntime, .correlation = 43});
  scene.event("void gemm<float>(float*)", 500, 600,
              {.track = stream, .kind = EventKind::kKernel, .correlation = 42});
  scene.event("Memset (Device)", 700, 730, {.track = stream, .kind = EventKind::kMemset, .correlation = 43});
  scene.event("late", 900, 1100, {.track = stream, .kind = EventKind::kKernel});
  const Recording recording = scene.builder.finish();

  SUBCASE("runtime calls folded into the op") {
    const SpanPlan plan = plan_of(recording);
    CHECK(find_span(plan, "cudaLaunchKernel") == kNotFound);
    const std::size_t lane = find_span(plan, "cuda:0 stream 7");
    CHECK(plan.spans[lane].start_ns == 500);
    CHECK(plan.spans[lane].end_ns == 730);
    CHECK(parent_of(plan, "cuda:0 stream 7") == 1);
    CHECK(parent_of(plan, "gemm") == plan.spans[lane].id);
    REQUIRE(links_of(plan, "gemm").size() == 1);
    CHECK(links_of(plan, "gemm")[0].target.span == id_of(plan, "linear"));
    CHECK(links_of(plan, "gemm")[0].kind == LinkKind::kLaunch);

    const auto gemm = attributes_of(plan, find_span(plan, "gemm"));
    CHECK(gemm.at("torch.correlation_id") == Value(std::int64_t{42}));
    CHECK(gemm.at("torch.link.type") == Value(std::string("launch")));
    CHECK(gemm.at("cuda.device.index") == Value(std::int64_t{0}));
    CHECK(gemm.at("torch.event.kind") == Value(std::string("kernel")));
    CHECK(gemm.at("torch.original_name") == Value(std::string("void gemm<float>(float*)")));
    const auto linear = attributes_of(plan, find_span(plan, "linear"));
    CHECK(linear.at("torch.correlation_ids") == Value(std::vector<std::int64_t>{42, 43}));
    CHECK(linear.at("torch.link.type") == Value(std::string("launch")));
    CHECK(linear.at("torch.device.time_ns") == Value(std::int64_t{130}));
    CHECK(linear.at("torch.kernel.count") == Value(std::int64_t{1}));
    CHECK(linear.at("torch.kernel.names") == Value(std::vector<std::string>{"gemm (1)", "Memset (1)"}));
    CHECK(linear.at("torch.folded.count") == Value(std::int64_t{2}));
    CHECK(linear.at("torch.folded.time_ns") == Value(std::int64_t{20}));
    CHECK(linear.at("torch.folded.names") == Value(std::vector<std::string>{"cudaLaunchKernel (2)"}));
    const auto module = attributes_of(plan, find_span(plan, "module"));
    CHECK(module.at("torch.device.time_ns") == Value(std::int64_t{130}));
    CHECK(module.count("torch.correlation_ids") == 0);
    // The step also has what nobody is known to have launched.
    CHECK(attributes_of(plan, 0).at("torch.device.time_ns") == Value(std::int64_t{330}));

    // A kernel that outlasts the step, on a lane of its own beside the step.
    const std::size_t beside = find_span(plan, "cuda:0 stream 7", 1);
    CHECK(plan.parent_id(plan.spans[beside]) == 1000);
    CHECK(parent_of(plan, "late") == plan.spans[beside].id);
    CHECK(attributes_of(plan, beside).at("torch.step.crossing") == Value(true));
  }

  SUBCASE("runtime calls as spans") {
    PlanOptions options;
    options.runtime_spans = true;
    const SpanPlan plan = plan_of(recording, options);
    const std::size_t call = find_span(plan, "cudaLaunchKernel");
    CHECK(links_of(plan, "gemm")[0].target.span == plan.spans[call].id);
    CHECK(attributes_of(plan, call).at("torch.correlation_id") == Value(std::int64_t{42}));
    CHECK(parent_of(plan, "cudaLaunchKernel") == id_of(plan, "linear"));
  }
}

TEST_CASE("a runtime call that no op made is a span") {
  Scene scene;
  scene.step(0, 1000, 0);
  scene.event("linear", 100, 400);
  scene.event("cudaLaunchKernel", 150, 160, {.kind = EventKind::kRuntime});
  scene.event("cudaDeviceSynchronize", 500, 900, {.kind = EventKind::kRuntime});
  scene.event("cuCtxSynchronize", 510, 890, {.kind = EventKind::kDriver});
  const Recording recording = scene.builder.finish();

  const SpanPlan plan = plan_of(recording);
  CHECK(find_span(plan, "cudaLaunchKernel") == kNotFound);
  CHECK(find_span(plan, "cuCtxSynchronize") == kNotFound);
  CHECK(parent_of(plan, "cudaDeviceSynchronize") == 1);
  const auto call = attributes_of(plan, find_span(plan, "cudaDeviceSynchronize"));
  CHECK(call.at("torch.self_time_ns") == Value(std::int64_t{20}));
  CHECK(call.at("torch.folded.time_ns") == Value(std::int64_t{380}));
  CHECK(attributes_of(plan, 0).count("torch.folded.count") == 0);
}

TEST_CASE("what is not sampled becomes no span and no link's target") {
  Scene scene;
  const std::uint32_t autograd = scene.thread(200, 2);
  scene.step(0, 100, 0);
  scene.step(100, 200, 1);
  scene.event("mul", 10, 20, {.sequence = 5});
  scene.event("MulBackward0", 150, 160, {.track = autograd, .sequence = 5, .forward_thread = 1});
  const Recording recording = scene.builder.finish();
  std::vector<SpanRoot> roots = roots_of(recording);
  roots[0].trace_flags = 0;
  const SpanPlan plan = plan_of(recording, {}, roots);
  REQUIRE(plan.spans.size() == 2);
  CHECK(plan.names[plan.spans[1].name].text == "MulBackward0");
  CHECK(plan.links.empty());
  CHECK(plan.stats[0].spans == 0);
}

TEST_CASE("roots that make no trace are refused") {
  Scene scene;
  scene.step(0, 100, 0);
  const Recording recording = scene.builder.finish();
  CHECK_THROWS_AS(plan_of(recording, {}, {}), std::invalid_argument);
  std::vector<SpanRoot> roots = roots_of(recording);
  roots[0].self.span = 0;
  CHECK_THROWS_AS(plan_of(recording, {}, roots), std::invalid_argument);
  roots = roots_of(recording);
  roots[0].end_ns = -1;
  CHECK_THROWS_AS(plan_of(recording, {}, roots), std::invalid_argument);
  roots = roots_of(recording);
  roots[0].step = 1;
  CHECK_THROWS_AS(plan_of(recording, {}, roots), std::invalid_argument);
}
