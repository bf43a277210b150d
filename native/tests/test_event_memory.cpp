#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "core/averages.h"
#include "core/event_memory.h"
#include "span_fixtures.h"

using namespace torchprof;
using namespace torchprof::testing;

namespace {

using Bytes = std::vector<std::int64_t>;

constexpr std::uint8_t kCuda = 1;

void memory(Scene& scene, std::int64_t time_ns, std::int64_t size_bytes, std::uint8_t flags = 0,
            std::uint8_t device_type = 0, std::uint32_t track = 0) {
  MemoryRecord record{};
  record.time = static_cast<std::uint64_t>(time_ns);
  record.event = -1;
  record.size_bytes = size_bytes;
  record.total_allocated_bytes = -1;
  record.total_reserved_bytes = -1;
  record.track = track;
  record.device_type = device_type;
  record.flags = flags;
  scene.builder.add_memory(record);
}

// A call that makes two others, one after the other.
void add_calls(Scene& scene, const char* outer, const char* first, const char* second) {
  scene.event(outer, 0, 100);
  scene.event(first, 10, 20);
  scene.event(second, 30, 40);
}

}  // namespace

TEST_CASE("events sum up what they and those within them allocate, free and hold at most") {
  Scene scene;
  scene.event("outer", 0, 100);
  scene.event("first", 10, 40);
  scene.event("second", 50, 90);
  scene.event("outside", 200, 300);
  memory(scene, 5, 1);
  memory(scene, 20, 100);
  memory(scene, 30, -100);
  memory(scene, 60, 10);
  memory(scene, 95, -20);
  memory(scene, 250, -5);
  memory(scene, 400, 7);  // in no event
  const Recording recording = scene.builder.finish();
  const EventMemory use = event_memory(recording, build_tree(recording), MemoryOf::kHost);
  CHECK(use.self_allocated == Bytes{1, 100, 10, 0});
  CHECK(use.self_freed == Bytes{20, 100, 0, 5});
  CHECK(use.allocated == Bytes{111, 100, 10, 0});
  CHECK(use.freed == Bytes{120, 100, 0, 5});
  CHECK(use.peak == Bytes{101, 100, 10, 0});
  CHECK(memory_events(recording) == Bytes{0, 1, 1, 2, 0, 3, -1});
}

TEST_CASE("host and devices are summed apart, threads too, failures not at all") {
  Scene scene;
  const std::uint32_t other = scene.thread(101, 2);
  scene.event("main", 0, 100);
  scene.event("other", 0, 100, {.track = other});
  memory(scene, 10, 3);
  memory(scene, 11, 50, 0, kCuda);
  memory(scene, 12, 1000, kMemoryOutOfMemory);
  memory(scene, 13, 40, 0, 0, other);
  memory(scene, 14, -40, 0, 0, other);
  const Recording recording = scene.builder.finish();
  const Tree tree = build_tree(recording);
  const EventMemory host = event_memory(recording, tree, MemoryOf::kHost);
  CHECK(host.allocated == Bytes{3, 40});
  CHECK(host.peak == Bytes{3, 40});
  CHECK(event_memory(recording, tree, MemoryOf::kDevices).allocated == Bytes{50, 0});
}

TEST_CASE("an event that holds memory when another begins is not counted against that one") {
  Scene scene;
  add_calls(scene, "outer", "holds", "later");
  memory(scene, 15, 1000);
  memory(scene, 35, 8);
  const Recording recording = scene.builder.finish();
  CHECK(event_memory(recording, build_tree(recording), MemoryOf::kHost).peak == Bytes{1008, 1000, 8});
}

TEST_CASE("averages have the memory of groups, once for calls within calls") {
  Scene scene;
  add_calls(scene, "f", "f", "g");
  memory(scene, 15, 10);
  memory(scene, 35, 5);
  memory(scene, 36, -1);
  const Recording recording = scene.builder.finish();
  const Averages table = build_averages(recording, build_tree(recording), {});
  CHECK(table.host_bytes == Bytes{14, 4});
  CHECK(table.self_host_bytes == Bytes{10, 4});
  CHECK(table.device_bytes == Bytes{0, 0});
  Scene without;
  without.event("f", 0, 100);
  const Recording bare = without.builder.finish();
  CHECK(build_averages(bare, build_tree(bare), {}).host_bytes.empty());
}

TEST_CASE("spans carry their memory, a step that of all threads, and an error where memory ran out") {
  Scene scene;
  const std::uint32_t other = scene.thread(101, 2);
  scene.step(0, 1000, 4);
  scene.event("op", 100, 400);
  scene.event("fails", 200, 300);
  memory(scene, 110, 64);
  memory(scene, 150, -24);
  memory(scene, 250, 1 << 20, kMemoryOutOfMemory);
  memory(scene, 500, 36, 0, 0, other);
  memory(scene, 600, 8, 0, kCuda, other);
  const Recording recording = scene.builder.finish();
  const SpanPlan plan = plan_of(recording);
  const auto step = attributes_of(plan, 0);
  CHECK(step.at("torch.memory.allocated_bytes") == Value(std::int64_t{100}));
  CHECK(step.at("torch.memory.freed_bytes") == Value(std::int64_t{24}));
  CHECK(step.at("torch.memory.peak_bytes") == Value(std::int64_t{76}));
  CHECK(step.at("torch.device.memory.allocated_bytes") == Value(std::int64_t{8}));
  CHECK(plan.error(plan.spans[0]).empty());
  const std::size_t op = find_span(plan, "op");
  CHECK(attributes_of(plan, op).at("torch.memory.allocated_bytes") == Value(std::int64_t{64}));
  CHECK(attributes_of(plan, op).count("torch.device.memory.allocated_bytes") == 0);
  CHECK(plan.error(plan.spans[op]).empty());
  const std::size_t fails = find_span(plan, "fails");
  CHECK(attributes_of(plan, fails).at("torch.memory.failed_bytes") == Value(std::int64_t{1 << 20}));
  CHECK(attributes_of(plan, fails).count("torch.memory.allocated_bytes") == 0);
  CHECK(plan.error(plan.spans[fails]) == "out of memory");
}
