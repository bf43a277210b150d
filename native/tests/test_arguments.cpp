#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include "core/builder.h"
#include "recording_image.h"

using namespace torchprof;

namespace {

void add_arguments(ChunkHeader& chunk, std::uint64_t event, std::uint32_t text) {
  ArgumentsRecord& record = RecordingImage::add_record<ArgumentsRecord>(chunk);
  record.event = event;
  record.text = text;
}

}  // namespace

TEST_CASE("a reader keeps the arguments that are JSON objects of events") {
  RecordingImage image;
  ChunkHeader& threads = image.add_chunk(ChunkKind::kThreads, sizeof(ThreadRecord), 0);
  RecordingImage::add_thread(threads, 1, "main");
  ChunkHeader& strings = image.add_chunk(ChunkKind::kStrings, 1, 0);
  RecordingImage::add_string(strings, 1, "aten::add");
  RecordingImage::add_string(strings, 2, R"({"dtype":"float"})");
  RecordingImage::add_string(strings, 3, R"({"dtype":)");
  ChunkHeader& ops = image.add_chunk(ChunkKind::kOps, sizeof(OpRecord), 1);
  RecordingImage::add_op(ops, 10, 20);
  RecordingImage::add_op(ops, 30, 40);
  ChunkHeader& arguments = image.add_chunk(ChunkKind::kArguments, sizeof(ArgumentsRecord), 0);
  add_arguments(arguments, 1, 2);
  add_arguments(arguments, 0, 3);   // no JSON
  add_arguments(arguments, 0, 0);   // nothing
  add_arguments(arguments, 0, 99);  // a string that is not there
  add_arguments(arguments, 2, 2);   // no such event

  const Recording recording = image.read();
  REQUIRE(recording.arguments.size() == 1);
  CHECK(recording.arguments[0].event == 1);
  CHECK(recording.strings.name(recording.arguments[0].text) == R"({"dtype":"float"})");
  CHECK(problem_count(recording, "damaged_arguments") == 3);
  CHECK(problem_count(recording, "unknown_string") == 1);
  CHECK(problem_count(recording, "side_row_without_event") == 1);
}

TEST_CASE("a builder takes the arguments of its events, and orders them with those") {
  RecordingBuilder builder;
  const std::uint32_t track = builder.add_track({});
  builder.add_event({.start_ns = 5, .end_ns = 6, .track = track});
  builder.add_event({.start_ns = 1, .end_ns = 2, .track = track});
  const std::uint32_t text = builder.add_string(R"({"a":1})");
  const std::uint32_t other = builder.add_string(R"({"b":2})");
  builder.add_arguments({.event = 0, .text = text, .reserved = 0});
  builder.add_arguments({.event = 1, .text = other, .reserved = 0});
  CHECK_THROWS_AS(builder.add_arguments({.event = 2, .text = text, .reserved = 0}), std::invalid_argument);
  CHECK_THROWS_AS(builder.add_arguments({.event = 0, .text = 99, .reserved = 0}), std::invalid_argument);
  CHECK_THROWS_AS(builder.add_arguments({.event = 0, .text = 0, .reserved = 0}), std::invalid_argument);
  const std::uint32_t list = builder.add_string("[1]");
  CHECK_THROWS_AS(builder.add_arguments({.event = 0, .text = list, .reserved = 0}), std::invalid_argument);
  const std::uint32_t huge = builder.add_string("{\"a\":\"" + std::string(kMaxArgumentsBytes, 'x') + "\"}");
  CHECK_THROWS_AS(builder.add_arguments({.event = 0, .text = huge, .reserved = 0}), std::invalid_argument);

  const Recording recording = builder.finish();
  REQUIRE(recording.arguments.size() == 2);
  CHECK(recording.arguments[0].event == 0);
  CHECK(recording.strings.name(recording.arguments[0].text) == R"({"b":2})");
  CHECK(recording.arguments[1].event == 1);
}
