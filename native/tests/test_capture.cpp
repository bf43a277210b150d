// What one thread sees of a capture: ops, steps, metadata, limits, the end.
#include <doctest/doctest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/thread_buffer.h"
#include "fake_torch.h"

using namespace torchprof;           // NOLINT(google-build-using-namespace)
using namespace torchprof::testing;  // NOLINT(google-build-using-namespace)

TEST_CASE("an op is recorded as it was reported") {
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  const std::vector<std::uint8_t> inputs{1, 2, 3, 4, 5};
  torchprof_op_start op{};
  op.key = &op;
  op.name = "aten::mul";
  op.overload = "Tensor";
  op.sequence = 12;
  op.torch_thread = 3;
  op.forward_thread = 2;
  op.scope = 1;
  op.inputs = inputs.data();
  op.inputs_bytes = inputs.size();
  core_table().op_start(slot, &op);
  core_table().op_end(slot, op.key, 0);
  FakeOp user;
  op.key = &user;
  op.name = "mine";
  op.is_user = 1;
  op.inputs = nullptr;
  core_table().op_start(slot, &op);
  core_table().op_end(slot, op.key, 1);
  CHECK(capture.recorded() == 2);
  capture.stop();

  const Recording recording = read(capture);
  const EventTable& events = recording.events;
  REQUIRE(events.size() == 2);
  CHECK(name_of(recording, 0) == "aten::mul");
  CHECK(recording.strings.overload(events.name[0]) == "Tensor");
  CHECK(events.kind[0] == static_cast<std::uint8_t>(EventKind::kOp));
  CHECK(events.scope[0] == 1);
  CHECK(events.flags[0] == 0);
  CHECK(events.sequence[0] == 12);
  CHECK(events.forward_thread[0] == 2);
  CHECK(events.start_ns[0] <= events.end_ns[0]);
  CHECK(events.end_ns[0] <= events.start_ns[1]);
  CHECK(events.payload[0] != 0);
  CHECK(events.kind[1] == static_cast<std::uint8_t>(EventKind::kUser));
  CHECK(events.flags[1] == kFlagAsync);
  CHECK(events.payload[1] == 0);
  REQUIRE(recording.tracks.size() == 1);
  CHECK(recording.tracks[0].torch_thread_id == 3);
  CHECK(recording.stopped);
  CHECK(recording.problems.empty());
  CHECK(all_drops(capture) == 0);
}

TEST_CASE("an event of another source nests among the ops, and the thread still gets torch's number") {
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  char key = 0;
  begin_event(slot, {.key = &key,
                     .name = "Linear",
                     .overload = "head.0",
                     .kind = EventKind::kModule,
                     .flags = kFlagTraining});
  record_op(slot, "aten::addmm");
  end_event(slot, &key);
  end_event(slot, &key);  // not open any more
  begin_event(slot, {.key = &key, .name = "Open", .overload = "", .kind = EventKind::kModule, .flags = 0});
  capture.stop();
  end_event(slot, &key);
  const Recording recording = read(capture);
  const EventTable& events = recording.events;
  REQUIRE(events.size() == 3);
  CHECK(name_of(recording, 0) == "Linear");
  CHECK(recording.strings.overload(events.name[0]) == "head.0");
  CHECK(events.kind[0] == static_cast<std::uint8_t>(EventKind::kModule));
  CHECK(events.flags[0] == kFlagTraining);
  CHECK(events.sequence[0] == -1);
  CHECK(name_of(recording, 1) == "aten::addmm");
  CHECK(events.end_ns[1] <= events.end_ns[0]);
  CHECK(events.flags[2] == kFlagUnfinished);
  REQUIRE(recording.tracks.size() == 1);
  CHECK(recording.tracks[0].torch_thread_id == 7);
  CHECK(drops(capture, DropReason::kUnmatchedEnd) == 1);
  CHECK(all_drops(capture) == 1);
}

TEST_CASE("an end that is not the innermost ends its own op") {
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  FakeOp outer;
  FakeOp inner;
  outer.start(slot, "outer");
  inner.start(slot, "inner");
  outer.end(slot, true);
  inner.end(slot);
  record_op(slot, "next");
  capture.stop();
  const Recording recording = read(capture);
  const std::size_t outer_row = only_row(recording, "outer");
  const std::size_t inner_row = only_row(recording, "inner");
  REQUIRE(recording.events.size() == 3);
  CHECK(recording.events.end_ns[outer_row] <= recording.events.end_ns[inner_row]);
  CHECK(recording.events.flags[outer_row] == kFlagAsync);
  CHECK(recording.events.flags[inner_row] == 0);
  CHECK(all_drops(capture) == 0);
}

TEST_CASE("an op open at stop is unfinished, and its late end touches nothing") {
  FakeOp op;
  Capture first("", kSmallCapBytes);
  const std::uint32_t slot = start(first);
  op.start(slot, "open");
  first.stop();
  op.end(slot);  // after stop
  const Recording recording = read(first);
  REQUIRE(recording.events.size() == 1);
  CHECK(recording.events.flags[0] == kFlagUnfinished);
  CHECK(recording.events.end_ns[0] >= recording.events.start_ns[0]);
  CHECK(all_drops(first) == 0);
}

TEST_CASE("the end of an op that was open at a stop is no loss of the next capture in the slot") {
  FakeOp op;
  Capture first("", kSmallCapBytes);
  const std::uint32_t slot = start(first);
  op.start(slot, "open");
  first.stop();
  Capture second("", kSmallCapBytes);
  REQUIRE(start(second) == slot);
  op.end(slot);
  record_op(slot, "next");
  CHECK(all_drops(second) == 0);
  static const FakeOp never_begun;  // at an address that no op of another test had
  never_begun.end(slot);
  CHECK(drops(second, DropReason::kUnmatchedEnd) == 1);
  second.stop();
  CHECK(read(second).events.size() == 1);
}

TEST_CASE("what is reported to a slot that does not record is ignored") {
  record_op(0, "nobody");
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  record_op(slot + 1, "other slot");
  CHECK(core_table().slot_active(slot) == 1);
  CHECK(core_table().slot_active(slot + 1) == 0);
  capture.stop();
  record_op(slot, "late");
  CHECK(read(capture).events.size() == 0);
  CHECK(all_drops(capture) == 0);
}

TEST_CASE("four captures record at once, a fifth is refused, a freed slot is used again") {
  std::vector<std::unique_ptr<Capture>> captures;
  for (std::size_t i = 0; i < 4; ++i) {
    captures.push_back(std::make_unique<Capture>("", kSmallCapBytes));
    CHECK(captures.back()->start() == static_cast<int>(i));
  }
  Capture fifth("", kSmallCapBytes);
  CHECK_THROWS_WITH_AS(fifth.start(), "all 4 capture slots record; stop a capture first", std::runtime_error);
  for (std::uint32_t slot = 0; slot < 4; ++slot) {
    for (std::uint32_t n = 0; n <= slot; ++n) {
      record_op(slot, "op");
    }
  }
  captures[2]->stop();
  CHECK(fifth.start() == 2);
  for (const std::size_t i : {0U, 1U, 2U, 3U}) {
    captures[i]->stop();
    CHECK(read(*captures[i]).events.size() == i + 1);
  }
}

TEST_CASE("a capture starts once, stops as often as one likes") {
  Capture capture("", kSmallCapBytes);
  CHECK(capture.slot() == -1);
  start(capture);
  CHECK_THROWS_AS(capture.start(), std::runtime_error);
  capture.stop();
  capture.stop();
  CHECK(capture.slot() == -1);
  CHECK_THROWS_AS(capture.start(), std::runtime_error);
  CHECK_THROWS_AS(capture.add_metadata("{}"), std::runtime_error);
}

TEST_CASE("deeper than the open stack: dropped and counted, the ends of all ops still find their own") {
  constexpr std::size_t kBeyond = 100;
  Capture capture("", kCapBytes);
  const std::uint32_t slot = start(capture);
  std::vector<FakeOp> ops(kMaxOpenOps + kBeyond);
  for (FakeOp& op : ops) {
    op.start(slot, "deep");
  }
  CHECK(drops(capture, DropReason::kStackTooDeep) == kBeyond);
  for (std::size_t i = ops.size(); i-- > 0;) {
    ops[i].end(slot);
  }
  capture.stop();
  const Recording recording = read(capture);
  CHECK(recording.events.size() == kMaxOpenOps);
  CHECK(std::all_of(recording.events.flags.begin(), recording.events.flags.end(),
                    [](auto flags) { return flags == 0; }));
  CHECK(all_drops(capture) == kBeyond);
}

TEST_CASE("at the byte cap ops are dropped and counted, and the recording stays within it") {
  constexpr std::size_t kOps = 50'000;
  Capture capture("", kMinCapBytes);
  const std::uint32_t slot = start(capture);
  FakeOp outer;
  outer.start(slot, "outer");
  for (std::size_t i = 0; i < kOps; ++i) {
    record_op(slot, "op");
  }
  outer.end(slot);
  CHECK(capture.recorded() + drops(capture, DropReason::kByteCap) == kOps + 1);
  capture.stop();
  CHECK(capture.bytes().size() <= kMinCapBytes);
  CHECK(capture.bytes().size() > kMinCapBytes * 3 / 4);
  const Recording recording = read(capture);
  CHECK(recording.events.size() + drops(capture, DropReason::kByteCap) == kOps + 1);
  CHECK(recording.events.flags[only_row(recording, "outer")] == 0);
  CHECK(all_drops(capture) == drops(capture, DropReason::kByteCap));
}

TEST_CASE("caps out of range are refused") {
  CHECK_THROWS_AS(Capture("", kMinCapBytes - 1), std::system_error);
  CHECK_THROWS_AS(Capture("", kMaxCapBytes + 1), std::system_error);
}

TEST_CASE("inputs over their bound are left out, counted and flagged") {
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  const std::vector<std::uint8_t> largest(kMaxInputsBytes, 1);
  const std::vector<std::uint8_t> too_large(kMaxInputsBytes + 1, 1);
  FakeOp op;
  op.start(slot, "fits", "", &largest);
  op.end(slot);
  op.start(slot, "too large", "", &too_large);
  op.end(slot);
  capture.stop();
  const Recording recording = read(capture);
  REQUIRE(recording.events.size() == 2);
  CHECK(recording.events.payload[0] != 0);
  CHECK(recording.events.flags[0] == 0);
  CHECK(recording.events.payload[1] == 0);
  CHECK(recording.events.flags[1] == kFlagPayloadCut);
  CHECK(drops(capture, DropReason::kPayloadTooLarge) == 1);
}

TEST_CASE("steps carry number, phase, context and links; the next one ends the open one") {
  const std::string context = std::string(16, 'T') + std::string(8, 'S');
  const std::string links = context + std::string(24, 'L');
  Capture capture("", kSmallCapBytes);
  capture.begin_step({.number = 1});  // not recording yet
  start(capture);
  capture.begin_step({.number = 5,
                      .phase = StepPhase::kTrain,
                      .flags = kStepInParent,
                      .context = context,
                      .trace_flags = 1,
                      .links = links});
  capture.begin_step({.number = -1, .phase = StepPhase::kEval});
  capture.end_step();
  capture.end_step();
  capture.begin_step({.number = 7});
  capture.stop();
  const Recording recording = read(capture);
  REQUIRE(recording.steps.size() == 3);
  const Step& first = recording.steps[0];
  CHECK(first.number == 5);
  CHECK(first.phase == StepPhase::kTrain);
  CHECK(first.flags == (kStepInParent | kStepHasNumber));
  CHECK(first.context_trace_flags == 1);
  CHECK(first.context.trace_id[15] == 'T');
  CHECK(first.context.span_id[7] == 'S');
  REQUIRE(first.links.size() == 2);
  CHECK(first.links[1].span_id[0] == 'L');
  CHECK(first.end_ns <= recording.steps[1].start_ns);
  CHECK(recording.steps[1].flags == 0);
  CHECK(recording.steps[2].flags == (kStepHasNumber | kStepPartial | kStepUnfinished));
  CHECK_THROWS_AS(capture.begin_step({.context = "short"}), std::invalid_argument);
  CHECK_THROWS_AS(capture.begin_step({.links = "short"}), std::invalid_argument);
}

TEST_CASE("metadata is kept line by line, whatever its length up to a chunk") {
  const std::string large = "{\"k\": \"" + std::string(900'000, 'v') + "\"}";
  Capture capture("", kSmallCapBytes);
  capture.add_metadata("{\"a\":\n 1}");
  start(capture);
  capture.add_metadata(large);
  capture.stop();
  const Recording recording = read(capture);
  REQUIRE(recording.metadata_json.size() == 2);
  CHECK(recording.metadata_json[0] == "{\"a\":  1}");
  CHECK(recording.metadata_json[1] == large);
  Capture other("", kSmallCapBytes);
  CHECK_THROWS_AS(other.add_metadata(std::string(kMaxChunkBytes, ' ')), std::invalid_argument);
}

TEST_CASE("a recording can be read while it is being written") {
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  FakeOp open;
  record_op(slot, "done");
  open.start(slot, "open");
  const Recording recording = read(capture);
  CHECK_FALSE(recording.stopped);
  REQUIRE(recording.events.size() == 2);
  CHECK(recording.events.flags[only_row(recording, "open")] == kFlagUnfinished);
  open.end(slot);
  capture.stop();
  CHECK(read(capture).events.flags[only_row(recording, "open")] == 0);
}
