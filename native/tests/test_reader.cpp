#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "recording_image.h"

using namespace torchprof;

namespace {

// One thread, one name, ops as the test adds them.
struct OneThread {
  RecordingImage image;
  ChunkHeader& threads = image.add_chunk(ChunkKind::kThreads, sizeof(ThreadRecord), 0);
  ChunkHeader& strings = image.add_chunk(ChunkKind::kStrings, 1, 0);
  ChunkHeader& ops = image.add_chunk(ChunkKind::kOps, sizeof(OpRecord), 1);

  OneThread() {
    RecordingImage::add_thread(threads, 1, "main");
    RecordingImage::add_string(strings, 1, "aten::add", "Tensor");
  }

  // What is read, and that one part of it was found to have this problem.
  Recording read_with_problem(std::string_view problem) {
    Recording recording = image.read();
    CHECK(problem_count(recording, problem) == 1);
    return recording;
  }
};

}  // namespace

TEST_CASE("ops of a capture become rows") {
  OneThread one;
  OpRecord& op = RecordingImage::add_op(one.ops, 100, 200);
  op.sequence = 7;
  op.forward_thread = 3;
  op.scope = 1;
  RecordingImage::add_op(one.ops, 120, 150);
  const Recording recording = one.image.read();

  REQUIRE(recording.events.size() == 2);
  CHECK(recording.events.start_ns[0] == 100);
  CHECK(recording.events.end_ns[0] == 200);
  CHECK(recording.events.sequence[0] == 7);
  CHECK(recording.events.forward_thread[0] == 3);
  CHECK(recording.events.scope[0] == 1);
  CHECK(recording.strings.name(recording.events.name[1]) == "aten::add");
  CHECK(recording.strings.overload(recording.events.name[1]) == "Tensor");
  REQUIRE(recording.tracks.size() == 1);
  CHECK(recording.tracks[0].name == "main");
  CHECK(recording.tracks[0].thread_id == 1001);
  CHECK(recording.tracks[0].process_id == 42);
  CHECK(recording.problems.empty());
  CHECK(recording.stopped);
}

TEST_CASE("an op that is still open ends with the recording") {
  OneThread one;
  one.image.header().state = static_cast<std::uint32_t>(RecordingState::kRecording);
  RecordingImage::add_op(one.ops, 100, 0);
  RecordingImage::add_op(one.ops, 120, 0);
  RecordingImage::add_op(one.ops, 130, 170);
  const Recording recording = one.image.read();

  CHECK_FALSE(recording.stopped);
  CHECK(recording.events.end_ns == std::vector<std::int64_t>{170, 170, 170});
  CHECK((recording.events.flags[0] & kFlagUnfinished) != 0);
  CHECK((recording.events.flags[2] & kFlagUnfinished) == 0);
  CHECK(recording.end_ns == 170);
  CHECK(recording.problems.empty());
}

TEST_CASE("rows go by track and start whatever the order of chunks") {
  RecordingImage image;
  ChunkHeader& threads = image.add_chunk(ChunkKind::kThreads, sizeof(ThreadRecord), 0);
  RecordingImage::add_thread(threads, 2, "b");
  RecordingImage::add_thread(threads, 1, "a");
  ChunkHeader& later = image.add_chunk(ChunkKind::kOps, sizeof(OpRecord), 1, 1);
  ChunkHeader& other = image.add_chunk(ChunkKind::kOps, sizeof(OpRecord), 2, 0);
  ChunkHeader& earlier = image.add_chunk(ChunkKind::kOps, sizeof(OpRecord), 1, 0);
  RecordingImage::add_op(later, 30, 40, 0);
  RecordingImage::add_op(other, 5, 6, 0);
  RecordingImage::add_op(earlier, 10, 20, 0);
  const Recording recording = image.read();

  CHECK(recording.events.start_ns == std::vector<std::int64_t>{10, 30, 5});
  CHECK(recording.events.track == std::vector<std::uint32_t>{0, 0, 1});
  CHECK(recording.tracks[1].name == "b");
  CHECK(recording.problems.empty());
}

TEST_CASE("of two ops that start together the enclosing one comes first") {
  OneThread one;
  RecordingImage::add_op(one.ops, 100, 110);
  RecordingImage::add_op(one.ops, 100, 200);
  const Recording recording = one.image.read();
  CHECK(recording.events.end_ns == std::vector<std::int64_t>{200, 110});
}

TEST_CASE("a header that cannot be read is refused with the reason") {
  RecordingImage image;
  std::string reason;
  SUBCASE("magic") {
    image.header().magic[0] = 'X';
    reason = "is not a recording";
  }
  SUBCASE("version") {
    image.header().version = 99;
    reason = "has format version 99, this version reads 1";
  }
  SUBCASE("byte order") {
    image.header().endian = 0x04030201;
    reason = "byte order";
  }
  SUBCASE("granule") {
    image.header().granule_bytes = 512;
    reason = "damaged header";
  }
  CHECK_THROWS_WITH_AS((void)image.read(), doctest::Contains(reason.c_str()), std::runtime_error);
}

TEST_CASE("what is cut off within its header is refused") {
  RecordingImage image;
  CHECK_THROWS_WITH_AS((void)read_recording(image.bytes().first(100), nullptr),
                       "the memory given is cut off within its header: nothing of it can be read",
                       std::runtime_error);
}

TEST_CASE("damage becomes a counted problem and the rest is read") {
  OneThread one;
  OpRecord& first = RecordingImage::add_op(one.ops, 100, 200);
  RecordingImage::add_op(one.ops, 300, 400);

  SUBCASE("an end before its start") {
    first.end_ticks = 50;
    const Recording recording = one.read_with_problem("negative_duration");
    CHECK(recording.events.end_ns[0] == 100);
  }
  SUBCASE("an unknown name") {
    first.name = 5;
    const Recording recording = one.read_with_problem("unknown_string");
    CHECK(recording.strings.name(recording.events.name[0]).empty());
  }
  SUBCASE("an unknown kind of event") {
    first.kind = 200;
    const Recording recording = one.read_with_problem("unknown_event_kind");
    CHECK(recording.events.kind[0] == static_cast<std::uint8_t>(EventKind::kOther));
  }
  SUBCASE("inputs outside the payload") {
    first.payload = 3;
    const Recording recording = one.read_with_problem("payload_out_of_range");
    CHECK(recording.events.payload[0] == 0);
  }
  SUBCASE("a time beyond all bounds") {
    first.end_ticks = std::uint64_t{1} << 62;
    const Recording recording = one.read_with_problem("time_out_of_range");
    CHECK(recording.events.end_ns[0] == kMaxTimeNs);
  }
  SUBCASE("more records than the chunk holds") {
    one.ops.committed = std::numeric_limits<std::uint64_t>::max();
    const Recording recording = one.read_with_problem("committed_too_large");
    CHECK(recording.events.size() == (kGranuleBytes - sizeof(ChunkHeader)) / sizeof(OpRecord));
  }
  SUBCASE("records of another size") {
    one.ops.record_bytes = 47;
    const Recording recording = one.read_with_problem("wrong_record_size");
    CHECK(recording.events.size() == 0);
  }
  SUBCASE("a chunk of an unknown kind") {
    one.image.add_chunk(static_cast<ChunkKind>(99), 8, 1);
    const Recording recording = one.read_with_problem("unknown_chunk_kind");
    CHECK(recording.events.size() == 2);
  }
  SUBCASE("a chunk header of noise") {
    one.threads.magic = 0xDEADBEEF;
    const Recording recording = one.read_with_problem("bad_chunk_header");
    CHECK(problem_count(recording, "unknown_thread") == 1);
    CHECK(recording.events.size() == 2);
  }
  SUBCASE("a size that leads nowhere") {
    one.ops.size_bytes = 0;
    const Recording recording = one.read_with_problem("bad_chunk_header");
    CHECK(recording.events.size() == 0);
  }
  SUBCASE("a size beyond the end") {
    one.ops.size_bytes = std::uint64_t{1} << 60;
    const Recording recording = one.read_with_problem("file_cut_off");
    CHECK(recording.events.size() == 2);
  }
  SUBCASE("used bytes beyond the end") {
    one.image.header().used_bytes = std::numeric_limits<std::uint64_t>::max();
    const Recording recording = one.read_with_problem("file_cut_off");
    CHECK(recording.events.size() == 2);
  }
  SUBCASE("a string longer than its chunk") {
    auto& entry = *reinterpret_cast<StringEntry*>(&one.strings + 1);
    entry.name_bytes = std::numeric_limits<std::uint32_t>::max();
    entry.overload_bytes = std::numeric_limits<std::uint32_t>::max();
    const Recording recording = one.read_with_problem("bad_string");
    CHECK(problem_count(recording, "unknown_string") == 2);
  }
  SUBCASE("a string id that cannot be") {
    RecordingImage::add_string(one.strings, 4'000'000'000, "far");
    CHECK(problem_count(one.image.read(), "bad_string") == 1);
  }
  SUBCASE("a string id given out twice") {
    RecordingImage::add_string(one.strings, 1, "again");
    const Recording recording = one.read_with_problem("duplicate_string");
    CHECK(recording.strings.name(recording.events.name[0]) == "aten::add");
  }
  SUBCASE("a thread described twice") {
    RecordingImage::add_thread(one.threads, 1, "again");
    const Recording recording = one.read_with_problem("duplicate_thread");
    CHECK(recording.tracks[0].name == "main");
  }
  SUBCASE("ops out of order") {
    first.start_ticks = 350;
    first.end_ticks = 360;
    const Recording recording = one.read_with_problem("rows_out_of_order");
    CHECK(recording.events.start_ns == std::vector<std::int64_t>{300, 350});
  }
  SUBCASE("a clock without a rate") {
    one.image.header().clock_source = static_cast<std::uint32_t>(ClockSource::kTsc);
    CHECK(problem_count(one.image.read(), "clock_not_calibrated") == 1);
  }
  SUBCASE("a calibration that was never finished") {
    one.image.header().clock_latest_sequence = 3;
    CHECK(problem_count(one.image.read(), "clock_not_calibrated") == 1);
  }
}

TEST_CASE("ticks are converted by the two calibrations") {
  OneThread one;
  FileHeader& header = one.image.header();
  header.clock_source = static_cast<std::uint32_t>(ClockSource::kTsc);
  header.clock_start = {.ticks = 1'000'000, .realtime_ns = 5'000'000'000, .monotonic_ns = 70};
  header.clock_latest = {.ticks = 41'000'000, .realtime_ns = 5'010'000'000, .monotonic_ns = 10'000'070};
  RecordingImage::add_op(one.ops, 5'000'000, 9'000'000);
  const Recording recording = one.image.read();
  CHECK(recording.events.start_ns[0] == 5'001'000'000);
  CHECK(recording.events.end_ns[0] == 5'002'000'000);
  CHECK(recording.start_ns == 5'000'000'000);
  CHECK(recording.end_ns == 5'010'000'000);
  CHECK(recording.problems.empty());
}

TEST_CASE("chunks handed out but not set up before a kill are no damage") {
  OneThread one;
  RecordingImage::add_op(one.ops, 100, 200);
  one.image.header().used_bytes += 3 * kGranuleBytes;
  one.image.header().state = static_cast<std::uint32_t>(RecordingState::kRecording);
  CHECK(one.image.read().problems.empty());
  one.image.header().state = static_cast<std::uint32_t>(RecordingState::kStopped);
  CHECK(problem_count(one.image.read(), "bad_chunk_header") == 1);
}

TEST_CASE("steps carry their context and links") {
  OneThread one;
  RecordingImage::add_op(one.ops, 100, 400);
  ChunkHeader& payload = one.image.add_chunk(ChunkKind::kPayload, 1, 0);
  ChunkHeader& steps = one.image.add_chunk(ChunkKind::kSteps, sizeof(StepRecord), 1);
  std::array<std::uint8_t, 48> links{};
  links[0] = 1;
  links[24] = 2;
  StepRecord& step = RecordingImage::add_record<StepRecord>(steps);
  step.start_ticks = 90;
  step.end_ticks = 300;
  step.number = 12;
  step.thread = 1;
  step.phase = static_cast<std::uint8_t>(StepPhase::kTrain);
  step.context_trace_id[0] = 9;
  step.links_payload = one.image.add_payload(payload, links);
  step.links_count = 2;

  SUBCASE("sound") {
    const Recording recording = one.image.read();
    REQUIRE(recording.steps.size() == 1);
    CHECK(recording.steps[0].number == 12);
    CHECK(recording.steps[0].phase == StepPhase::kTrain);
    CHECK(recording.steps[0].context.trace_id[0] == 9);
    REQUIRE(recording.steps[0].links.size() == 2);
    CHECK(recording.steps[0].links[1].trace_id[0] == 2);
  }
  SUBCASE("more links than there are bytes") {
    step.links_count = std::numeric_limits<std::uint32_t>::max();
    const Recording recording = one.read_with_problem("step_links_out_of_range");
    CHECK(recording.steps[0].links.empty());
  }
}

TEST_CASE("metadata is split into lines") {
  RecordingImage image;
  ChunkHeader& metadata = image.add_chunk(ChunkKind::kMetadata, 1, 0);
  const std::string text = "{\"a\": 1}\n\n{\"b\": 2}\n";
  std::memcpy(reinterpret_cast<std::byte*>(&metadata + 1), text.data(), text.size());
  metadata.committed = text.size();
  CHECK(image.read().metadata_json == std::vector<std::string>{"{\"a\": 1}", "{\"b\": 2}"});
}

TEST_CASE("steps cannot claim one payload again and again") {
  OneThread one;
  ChunkHeader& payload = one.image.add_chunk(ChunkKind::kPayload, 1, 0);
  ChunkHeader& steps = one.image.add_chunk(ChunkKind::kSteps, sizeof(StepRecord), 1);
  constexpr std::uint32_t kLinks = 600;
  const std::vector<std::uint8_t> links(kLinks * sizeof(SpanContext), 1);
  const std::uint32_t offset = one.image.add_payload(payload, links);
  constexpr std::uint64_t kSteps = 200;
  for (std::uint64_t index = 0; index < kSteps; ++index) {
    StepRecord& step = RecordingImage::add_record<StepRecord>(steps);
    step.start_ticks = index;
    step.end_ticks = index + 1;
    step.thread = 1;
    step.links_payload = offset;
    step.links_count = kLinks;
  }
  const Recording recording = one.image.read();
  std::size_t copied = 0;
  for (const Step& step : recording.steps) copied += step.links.size();
  CHECK(copied * sizeof(SpanContext) <= one.image.bytes().size());
  CHECK(problem_count(recording, "step_links_out_of_range") == kSteps - copied / kLinks);
}

TEST_CASE("tracks cannot claim one long name again and again") {
  RecordingImage image;
  ChunkHeader& strings = image.add_chunk(ChunkKind::kStrings, 1, 0);
  ChunkHeader& tracks = image.add_chunk(ChunkKind::kTracks, sizeof(TrackRecord), 0);
  RecordingImage::add_string(strings, 1, std::string(10'000, 'x'));
  RecordingImage::add_record<TrackRecord>(tracks).name = 1;
  const Recording recording = image.read();
  CHECK(recording.tracks[0].name == std::string(kMaxTrackNameBytes, 'x'));
}
