#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/builder.h"
#include "core/overruns.h"
#include "core/reader.h"
#include "core/writer.h"
#include "recording_image.h"

using namespace torchprof;

namespace {

DeviceRecord kernel_record(std::uint64_t event) {
  DeviceRecord record{};
  record.event = event;
  record.external_id = -1;
  record.stream = 7;
  record.size_bytes = -1;
  record.graph_id = -1;
  record.graph_node_id = -1;
  record.wait_correlation = -1;
  record.device = 3;
  record.context = 1;
  record.grid[0] = 4;
  record.grid[1] = record.grid[2] = 1;
  record.block[0] = 128;
  record.block[1] = record.block[2] = 1;
  record.registers = 38;
  record.shared_bytes = 49'152;
  record.blocks_per_sm = 0.5F;
  record.warps_per_sm = std::numeric_limits<float>::quiet_NaN();
  record.occupancy_percent = 25;
  return record;
}

Track stream_track() {
  Track track;
  track.kind = TrackKind::kStream;
  track.device = 3;
  return track;
}

CounterRecord counter_record(std::uint64_t time, std::int64_t event, std::uint32_t name, double value = 0) {
  CounterRecord record{};
  record.time = time;
  record.event = event;
  record.name = name;
  record.value = value;
  return record;
}

// Two threads, and events added against the order of rows.
struct TwoThreads {
  RecordingBuilder builder;
  std::uint32_t main = builder.add_track({});
  std::uint32_t stream = builder.add_track(stream_track());

  std::uint64_t event(std::string_view name, std::int64_t start_ns, std::int64_t end_ns, std::uint32_t track,
                      EventKind kind = EventKind::kOp) {
    BuilderEvent event;
    event.start_ns = start_ns;
    event.end_ns = end_ns;
    event.name = builder.add_string(name);
    event.track = track;
    event.kind = kind;
    return builder.add_event(event);
  }
};

std::string_view name_of(const Recording& recording, std::uint64_t row) {
  return recording.strings.name(recording.events.name[row]);
}

// As a file, read again.
Recording saved_and_read(const Recording& recording) {
  const std::string name = "side-tables-" + std::to_string(getpid()) + ".tprof";
  const std::string path = std::filesystem::temp_directory_path() / name;
  save_recording(recording, path);
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> content{std::istreambuf_iterator<char>(file), {}};
  std::remove(path.c_str());
  // Aligned as a mapping is.
  std::vector<std::uint64_t> words((content.size() + 7) / 8);
  std::copy(content.begin(), content.end(), reinterpret_cast<char*>(words.data()));
  return read_recording(std::as_bytes(std::span(words)).first(content.size()), nullptr);
}

void check_tables(const Recording& recording) {
  REQUIRE(recording.devices.size() == 2);
  // By row of the event: the stream's rows come after the thread's, and within it by start.
  CHECK(name_of(recording, recording.devices[0].event) == "early");
  CHECK(name_of(recording, recording.devices[1].event) == "late");
  CHECK(recording.devices[1].registers == 38);
  CHECK(recording.devices[1].grid[0] == 4);
  CHECK(recording.devices[1].shared_bytes == 49'152);
  CHECK(recording.devices[1].blocks_per_sm == 0.5F);
  CHECK(std::isnan(recording.devices[1].warps_per_sm));
  CHECK(recording.devices[0].size_bytes == 4096);

  REQUIRE(recording.counters.size() == 2);
  CHECK(recording.counters[0].time == 50);
  CHECK(recording.counters[0].event == -1);
  CHECK(recording.counters[0].value == -1.5);
  CHECK(recording.strings.overload(recording.counters[1].name) == "series");
  CHECK(name_of(recording, static_cast<std::uint64_t>(recording.counters[1].event)) == "op");

  REQUIRE(recording.memory.size() == 2);
  CHECK(recording.memory[0].size_bytes == 512);
  CHECK(recording.memory[0].address == 0xDEAD'BEEF'0000U);
  CHECK(recording.memory[0].total_reserved_bytes == -1);
  CHECK(recording.memory[1].size_bytes == -512);
  CHECK(recording.memory[1].event == -1);
}

Recording recording_with_tables() {
  TwoThreads threads;
  const std::uint64_t late = threads.event("late", 300, 400, threads.stream, EventKind::kKernel);
  const std::uint64_t early = threads.event("early", 100, 200, threads.stream, EventKind::kMemcpy);
  const std::uint64_t op = threads.event("op", 0, 50, threads.main);
  threads.builder.add_device(kernel_record(late));
  DeviceRecord copy = kernel_record(early);
  copy.size_bytes = 4096;
  threads.builder.add_device(copy);
  const std::uint32_t counter = threads.builder.add_string("counter", "series");
  threads.builder.add_counter(counter_record(60, static_cast<std::int64_t>(op), counter, 9));
  threads.builder.add_counter(counter_record(50, -1, counter, -1.5));
  MemoryRecord freed{};
  freed.time = 80;
  freed.event = -1;
  freed.size_bytes = -512;
  threads.builder.add_memory(freed);
  MemoryRecord allocated{};
  allocated.time = 70;
  allocated.event = static_cast<std::int64_t>(op);
  allocated.address = 0xDEAD'BEEF'0000U;
  allocated.size_bytes = 512;
  allocated.total_reserved_bytes = -1;
  threads.builder.add_memory(allocated);
  return threads.builder.finish();
}

}  // namespace

TEST_CASE("tables beside the events follow their events into the order of rows") {
  check_tables(recording_with_tables());
}

TEST_CASE("a saved recording has the same tables") {
  const Recording again = saved_and_read(recording_with_tables());
  CHECK(again.problems.empty());
  check_tables(again);
}

TEST_CASE("a builder refuses rows of events, tracks and names that are not there, and stays as it was") {
  TwoThreads threads;
  const std::uint64_t op = threads.event("op", 0, 50, threads.main);
  CHECK_THROWS_AS(threads.builder.add_device(kernel_record(op + 1)), std::invalid_argument);
  CHECK_THROWS_AS(threads.builder.add_counter(counter_record(0, 1, 0)), std::invalid_argument);
  CHECK_THROWS_AS(threads.builder.add_counter(counter_record(0, -2, 0)), std::invalid_argument);
  CHECK_THROWS_AS(threads.builder.add_counter(counter_record(0, -1, 1'000)), std::invalid_argument);
  CHECK_THROWS_AS(threads.builder.add_counter(counter_record(~0ULL >> 1, -1, 0)), std::invalid_argument);
  CounterRecord elsewhere = counter_record(0, -1, 0);
  elsewhere.track = 2;
  CHECK_THROWS_AS(threads.builder.add_counter(elsewhere), std::invalid_argument);
  MemoryRecord record{};
  record.event = 1;
  CHECK_THROWS_AS(threads.builder.add_memory(record), std::invalid_argument);
  const Recording recording = threads.builder.finish();
  CHECK(recording.devices.empty());
  CHECK(recording.counters.empty());
  CHECK(recording.memory.empty());
}

TEST_CASE("rows of a capture that refer to nothing are left out and counted, the others are read") {
  RecordingImage image;
  ChunkHeader& threads = image.add_chunk(ChunkKind::kThreads, sizeof(ThreadRecord), 0);
  ChunkHeader& strings = image.add_chunk(ChunkKind::kStrings, 1, 0);
  ChunkHeader& ops = image.add_chunk(ChunkKind::kOps, sizeof(OpRecord), 1);
  ChunkHeader& devices = image.add_chunk(ChunkKind::kDevice, sizeof(DeviceRecord), 0);
  ChunkHeader& counters = image.add_chunk(ChunkKind::kCounters, sizeof(CounterRecord), 0);
  ChunkHeader& memory = image.add_chunk(ChunkKind::kMemory, sizeof(MemoryRecord), 0);
  RecordingImage::add_thread(threads, 1, "main");
  RecordingImage::add_string(strings, 1, "aten::add");
  RecordingImage::add_op(ops, 100, 200);

  const auto device = [&](std::uint64_t event) {
    RecordingImage::add_record<DeviceRecord>(devices) = kernel_record(event);
  };
  const auto counter = [&](std::int64_t event, std::uint32_t name, std::uint32_t thread, std::uint64_t time) {
    CounterRecord& record = RecordingImage::add_record<CounterRecord>(counters);
    record.time = time;
    record.event = event;
    record.name = name;
    record.track = thread;
    record.value = 1;
  };
  const auto allocation = [&](std::int64_t event) {
    MemoryRecord& record = RecordingImage::add_record<MemoryRecord>(memory);
    record.time = 150;
    record.event = event;
    record.track = 1;
  };

  SUBCASE("events") {
    device(0);
    device(1);
    device(~0ULL);
    counter(0, 1, 1, 150);
    counter(1, 1, 1, 150);
    counter(std::numeric_limits<std::int64_t>::min(), 1, 1, 150);
    allocation(-1);
    allocation(std::numeric_limits<std::int64_t>::max());
    const Recording recording = image.read();
    CHECK(problem_count(recording, "side_row_without_event") == 5);
    CHECK(recording.devices.size() == 1);
    CHECK(recording.counters.size() == 1);
    CHECK(recording.memory.size() == 1);
    CHECK(recording.events.size() == 1);
  }
  SUBCASE("names") {
    counter(-1, 77, 1, 150);
    const Recording recording = image.read();
    CHECK(problem_count(recording, "unknown_string") == 1);
    REQUIRE(recording.counters.size() == 1);
    CHECK(recording.strings.name(recording.counters[0].name).empty());
  }
  SUBCASE("times") {
    counter(-1, 1, 1, ~0ULL >> 1);
    const Recording recording = image.read();
    CHECK(problem_count(recording, "time_out_of_range") == 1);
    REQUIRE(recording.counters.size() == 1);
    CHECK(static_cast<std::int64_t>(recording.counters[0].time) == kMaxTimeNs);
  }
  SUBCASE("records of another size") {
    device(0);
    devices.record_bytes = sizeof(DeviceRecord) - 8;
    counter(-1, 1, 1, 150);
    counters.record_bytes = 1;
    const Recording recording = image.read();
    CHECK(problem_count(recording, "wrong_record_size") == 2);
    CHECK(recording.devices.empty());
    CHECK(recording.counters.empty());
  }
  SUBCASE("more records than there is room for") {
    allocation(-1);
    memory.committed = ~0ULL >> 8;
    const Recording recording = image.read();
    CHECK(problem_count(recording, "committed_too_large") == 1);
    CHECK(recording.events.size() == 1);
    CHECK(recording.memory.size() <= kGranuleBytes / sizeof(MemoryRecord));
  }
}

TEST_CASE("mending an overrun leaves the tables with their events") {
  TwoThreads threads;
  const std::uint64_t outer = threads.event("outer", 0, 100, threads.main);
  const std::uint64_t inner = threads.event("inner", 50, 101, threads.main);
  threads.builder.add_device(kernel_record(inner));
  const std::uint32_t name = threads.builder.add_string("counter");
  threads.builder.add_counter(counter_record(1, static_cast<std::int64_t>(outer), name));
  Recording recording = threads.builder.finish();
  const OverrunCounts counts = mend_overruns(recording, {.rounding_ns = 1});
  CHECK(counts.rounded == 1);
  CHECK(recording.events.end_ns[1] == 100);
  CHECK(name_of(recording, recording.devices[0].event) == "inner");
  CHECK(name_of(recording, static_cast<std::uint64_t>(recording.counters[0].event)) == "outer");
}
