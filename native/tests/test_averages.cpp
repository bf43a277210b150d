#include <doctest/doctest.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "core/averages.h"
#include "core/builder.h"
#include "core/inputs_encoding.h"

using namespace torchprof;

namespace {

using Times = std::vector<std::int64_t>;
using Counts = std::vector<std::uint64_t>;

Averages averages_of(const Recording& recording, const AveragesOptions& options = {}) {
  return build_averages(recording, build_tree(recording), options);
}

std::vector<std::uint8_t> tensor_of_size(std::uint8_t zigzag_size) {
  return {1, static_cast<std::uint8_t>(InputTag::kTensor), 6, 0, 1, zigzag_size, 0};
}

}  // namespace

TEST_CASE("recursion adds calls and self time, not total time") {
  RecordingBuilder builder;
  const std::uint32_t f = builder.add_string("f");
  const std::uint32_t g = builder.add_string("g");
  const std::uint32_t track = builder.add_track({});
  builder.add_event({.start_ns = 0, .end_ns = 100, .name = f, .track = track});
  builder.add_event({.start_ns = 10, .end_ns = 90, .name = g, .track = track});
  builder.add_event({.start_ns = 20, .end_ns = 80, .name = f, .track = track});
  builder.add_event({.start_ns = 200, .end_ns = 230, .name = f, .track = track});
  const Averages averages = averages_of(builder.finish());
  CHECK(averages.calls == Counts{3, 1});
  CHECK(averages.total_ns == Times{130, 80});
  CHECK(averages.self_ns == Times{110, 20});
}

TEST_CASE("an async event inside one of its name adds no total time") {
  RecordingBuilder builder;
  const std::uint32_t f = builder.add_string("f");
  const std::uint32_t g = builder.add_string("g");
  const std::uint32_t track = builder.add_track({});
  builder.add_event({.start_ns = 0, .end_ns = 100, .name = f, .track = track});
  builder.add_event({.start_ns = 10, .end_ns = 40, .name = g, .track = track});
  // Outlasts g: its parent is f, while g is still open for what follows.
  builder.add_event({.start_ns = 20, .end_ns = 60, .name = f, .track = track, .flags = kFlagAsync});
  builder.add_event({.start_ns = 25, .end_ns = 60, .name = g, .track = track, .flags = kFlagAsync});
  builder.add_event({.start_ns = 30, .end_ns = 35, .name = g, .track = track});
  const Averages averages = averages_of(builder.finish());
  CHECK(averages.calls == Counts{2, 3});
  CHECK(averages.total_ns == Times{100, 30 + 35});
}

TEST_CASE("overloads and kinds are kept apart as asked") {
  RecordingBuilder builder;
  const std::uint32_t tensor = builder.add_string("add", "Tensor");
  const std::uint32_t scalar = builder.add_string("add", "Scalar");
  const std::uint32_t track = builder.add_track({});
  builder.add_event({.start_ns = 0, .end_ns = 1, .name = tensor, .track = track});
  builder.add_event({.start_ns = 2, .end_ns = 4, .name = scalar, .track = track});
  builder.add_event({.start_ns = 5, .end_ns = 9, .name = tensor, .track = track, .kind = EventKind::kUser});
  const Recording recording = builder.finish();
  CHECK(averages_of(recording).total_ns == Times{3, 4});
  CHECK(averages_of(recording, {.by_overload = true, .ranges = {}}).total_ns == Times{1, 2, 4});
}

TEST_CASE("shapes separate groups, values and dtypes do not") {
  RecordingBuilder builder;
  const std::uint32_t add = builder.add_string("add");
  const std::uint32_t track = builder.add_track({});
  std::vector<std::uint8_t> other_dtype = tensor_of_size(8);
  other_dtype[2] = 7;
  builder.add_event({.start_ns = 0, .end_ns = 1, .name = add, .track = track}, tensor_of_size(8));
  builder.add_event({.start_ns = 1, .end_ns = 3, .name = add, .track = track}, tensor_of_size(10));
  builder.add_event({.start_ns = 3, .end_ns = 6, .name = add, .track = track}, other_dtype);
  builder.add_event({.start_ns = 6, .end_ns = 10, .name = add, .track = track});
  const std::vector<std::uint8_t> damaged = {1, static_cast<std::uint8_t>(InputTag::kTensor), 6};
  builder.add_event({.start_ns = 10, .end_ns = 15, .name = add, .track = track}, damaged);
  const Averages averages = averages_of(builder.finish(), {.by_shapes = true, .ranges = {}});
  CHECK(averages.total_ns == Times{4, 2, 9});
  CHECK(averages.damaged_inputs == 1);
}

TEST_CASE("ranges keep events that start in them") {
  RecordingBuilder builder;
  const std::uint32_t f = builder.add_string("f");
  const std::uint32_t track = builder.add_track({});
  builder.add_event({.start_ns = 0, .end_ns = 100, .name = f, .track = track});
  builder.add_event({.start_ns = 10, .end_ns = 20, .name = f, .track = track});
  builder.add_event({.start_ns = 20, .end_ns = 50, .name = f, .track = track});
  const Recording recording = builder.finish();
  const Averages averages = averages_of(recording, {.only_ranges = true, .ranges = {{15, 30}, {10, 16}}});
  // Inside an event that does not count they are the outermost ones.
  CHECK(averages.calls == Counts{2});
  CHECK(averages.total_ns == Times{40});
  CHECK(averages_of(recording, {.only_ranges = true, .ranges = {}}).calls.empty());
}
