#include <doctest/doctest.h>

#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "core/append_events.h"
#include "core/builder.h"
#include "core/inputs_decoder.h"

using namespace torchprof;

namespace {

const std::vector<std::uint8_t> kInputs = {1, 2, 3};

// Two threads; rows are in order of track and start: a0, a1 on the first, b0, b1 on the second.
Recording source() {
  RecordingBuilder builder;
  const std::uint32_t first = builder.add_track({.thread_id = 1, .name = "first"});
  const std::uint32_t second = builder.add_track({.thread_id = 2, .name = "second"});
  const std::uint64_t inputs = builder.add_payload(kInputs);
  std::vector<std::uint64_t> numbers;
  for (const std::uint32_t track : {first, second}) {
    for (const std::int64_t start_ns : {10, 20}) {
      numbers.push_back(builder.add_event({.start_ns = start_ns,
                                           .end_ns = start_ns + 5,
                                           .name = builder.add_string("op", track == 0 ? "a" : "b"),
                                           .track = track,
                                           .correlation = 100 + start_ns,
                                           .payload = inputs,
                                           .error = start_ns == 10 ? 0 : builder.add_string("KeyError")}));
    }
  }
  DeviceRecord device{};
  device.event = numbers[1];
  builder.add_device(device);
  const std::uint32_t arguments = builder.add_string(R"({"dtype":"float"})");
  builder.add_arguments({.event = numbers[0], .text = arguments, .reserved = 0});
  builder.add_arguments({.event = numbers[2], .text = arguments, .reserved = 0});
  builder.add_counter({.time = 12, .event = 0, .track = first, .name = builder.add_string("c"), .value = 7});
  MemoryRecord memory{};
  memory.time = 22;
  memory.event = static_cast<std::int64_t>(numbers[3]);
  memory.track = second;
  builder.add_memory(memory);
  builder.add_link(numbers[0], numbers[1], LinkType::kOther);
  builder.add_link(numbers[1], numbers[3], LinkType::kLaunch);
  return builder.finish();
}

}  // namespace

TEST_CASE("kept events bring inputs, tables and the links between them") {
  const Recording from = source();
  RecordingBuilder builder;
  builder.add_string("something before");
  builder.add_track({.name = "before"});
  const std::uint32_t first = builder.add_track({.name = "first again"});
  const std::uint32_t second = builder.add_track({.name = "second again"});
  append_events(builder, from, std::vector<std::uint8_t>{0, 1, 1, 1},
                std::vector<std::uint32_t>{first, second});
  const Recording to = builder.finish();

  REQUIRE(to.events.size() == 3);
  CHECK(to.events.start_ns == std::vector<std::int64_t>{20, 10, 20});
  CHECK(to.events.track == std::vector<std::uint32_t>{first, second, second});
  CHECK(to.events.correlation == std::vector<std::int64_t>{120, 110, 120});
  CHECK(to.strings.name(to.events.name[0]) == "op");
  CHECK(to.strings.overload(to.events.name[0]) == "a");
  CHECK(to.strings.overload(to.events.name[1]) == "b");
  REQUIRE(to.events.error.size() == 3);
  CHECK(to.strings.name(to.events.error[0]) == "KeyError");
  CHECK(to.events.error[1] == 0);
  CHECK(to.events.payload[0] == to.events.payload[2]);  // still shared
  const auto inputs = encoded_inputs(to, 0);
  CHECK(std::vector<std::uint8_t>(inputs.begin(), inputs.end()) == kInputs);

  REQUIRE(to.devices.size() == 1);
  CHECK(to.devices[0].event == 0);
  REQUIRE(to.arguments.size() == 1);
  CHECK(to.arguments[0].event == 1);
  CHECK(to.strings.name(to.arguments[0].text) == R"({"dtype":"float"})");
  REQUIRE(to.counters.size() == 1);
  CHECK(to.counters[0].event == -1);  // its event stayed behind
  CHECK(to.counters[0].track == first);
  CHECK(to.strings.name(to.counters[0].name) == "c");
  REQUIRE(to.memory.size() == 1);
  CHECK(to.memory[0].event == 2);
  CHECK(to.links.from == std::vector<std::uint64_t>{0});
  CHECK(to.links.to == std::vector<std::uint64_t>{2});
}

TEST_CASE("nothing of a track without a place is added") {
  RecordingBuilder builder;
  const std::uint32_t second = builder.add_track({});
  append_events(builder, source(), std::vector<std::uint8_t>{1, 1, 1, 1},
                std::vector<std::uint32_t>{kNoTrack, second});
  const Recording to = builder.finish();
  CHECK(to.events.track == std::vector<std::uint32_t>{second, second});
  CHECK(to.devices.empty());
  CHECK(to.counters.empty());
  CHECK(to.memory.size() == 1);
  CHECK(to.links.type.empty());
}

TEST_CASE("marks of another recording are refused") {
  const Recording from = source();
  RecordingBuilder builder;
  builder.add_track({});
  CHECK_THROWS_AS(
      append_events(builder, from, std::vector<std::uint8_t>{1}, std::vector<std::uint32_t>{0, 0}),
      std::invalid_argument);
  CHECK_THROWS_AS(
      append_events(builder, from, std::vector<std::uint8_t>{1, 1, 1, 1}, std::vector<std::uint32_t>{0}),
      std::invalid_argument);
  CHECK(builder.finish().events.size() == 0);
}
