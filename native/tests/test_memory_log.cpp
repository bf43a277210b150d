// Allocations as a bridge reports them, from the hook to the rows of a recording.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "fake_torch.h"

using namespace torchprof;           // NOLINT(google-build-using-namespace)
using namespace torchprof::testing;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::uint8_t kCpu = 0;
constexpr std::uint8_t kCuda = 1;

void report(std::uint32_t slot, std::uint8_t action, std::uint64_t address, std::uint64_t size_bytes = 0,
            std::uint8_t device_type = kCpu, std::int32_t device = -1) {
  const torchprof_memory_event event{.address = address,
                                     .size_bytes = size_bytes,
                                     .device = device,
                                     .device_type = device_type,
                                     .action = action};
  core_table().memory_event(slot, &event);
}

void allocate(std::uint32_t slot, std::uint64_t address, std::uint64_t size_bytes) {
  report(slot, TORCHPROF_MEMORY_ALLOCATED, address, size_bytes);
}
void free_block(std::uint32_t slot, std::uint64_t address) { report(slot, TORCHPROF_MEMORY_FREED, address); }

std::vector<std::int64_t> sizes_of(const Recording& recording) {
  std::vector<std::int64_t> sizes;
  for (const MemoryRecord& record : recording.memory) sizes.push_back(record.size_bytes);
  return sizes;
}

std::vector<std::int64_t> totals_of(const Recording& recording) {
  std::vector<std::int64_t> totals;
  for (const MemoryRecord& record : recording.memory) totals.push_back(record.total_allocated_bytes);
  return totals;
}

std::vector<int> flags_of(const Recording& recording) {
  std::vector<int> flags;
  for (const MemoryRecord& record : recording.memory) flags.push_back(record.flags);
  return flags;
}

using Sizes = std::vector<std::int64_t>;
using Flags = std::vector<int>;

}  // namespace

TEST_CASE("an allocation belongs to the op it happened in") {
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  allocate(slot, 0x1000, 1);
  FakeOp outer;
  FakeOp inner;
  outer.start(slot, "outer");
  allocate(slot, 0x2000, 2);
  inner.start(slot, "inner");
  allocate(slot, 0x3000, 3);
  inner.end(slot);
  free_block(slot, 0x3000);
  outer.end(slot);
  free_block(slot, 0x1000);
  capture.stop();
  const Recording recording = read(capture);
  const auto outer_row = static_cast<std::int64_t>(only_row(recording, "outer"));
  const auto inner_row = static_cast<std::int64_t>(only_row(recording, "inner"));
  REQUIRE(recording.memory.size() == 5);
  CHECK(recording.memory[0].event == -1);
  CHECK(recording.memory[1].event == outer_row);
  CHECK(recording.memory[2].event == inner_row);
  CHECK(recording.memory[3].event == outer_row);
  CHECK(recording.memory[4].event == -1);
  CHECK(sizes_of(recording) == Sizes{1, 2, 3, -3, -1});
  CHECK(totals_of(recording) == Sizes{1, 3, 6, 3, 2});
  CHECK(flags_of(recording) == Flags{0, 0, 0, kMemoryFree, kMemoryFree});
  CHECK(recording.memory[0].total_reserved_bytes == -1);
  CHECK(recording.memory[0].address == 0x1000);
}

TEST_CASE("ops that ran on, or ended elsewhere, own no allocation") {
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  FakeOp moved;
  moved.start(slot, "moved");
  allocate(slot, 0x1000, 1);
  std::thread([&] { moved.end(slot); }).join();
  capture.stop();
  CHECK(read(capture).memory[0].event == -1);
}

TEST_CASE("a free without its allocation is told apart and changes no total") {
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  free_block(slot, 0x1000);
  allocate(slot, 0x1000, 5);
  free_block(slot, 0x1000);
  free_block(slot, 0x1000);
  capture.stop();
  const Recording recording = read(capture);
  CHECK(sizes_of(recording) == Sizes{0, 5, -5, 0});
  CHECK(totals_of(recording) == Sizes{0, 5, 0, 0});
  constexpr int kBefore = kMemoryFree | kMemoryBeforeCapture;
  CHECK(flags_of(recording) == Flags{kBefore, 0, kMemoryFree, kBefore});
}

TEST_CASE("an address that is allocated again was freed unseen") {
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  allocate(slot, 0x1000, 5);
  allocate(slot, 0x1000, 7);
  free_block(slot, 0x1000);
  capture.stop();
  const Recording recording = read(capture);
  CHECK(sizes_of(recording) == Sizes{5, 7, -7});
  CHECK(totals_of(recording) == Sizes{5, 7, 0});
}

TEST_CASE("each device has totals of its own, and reserves") {
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  report(slot, TORCHPROF_MEMORY_SEGMENT_RESERVED, 0x9000, 1000, kCuda, 0);
  report(slot, TORCHPROF_MEMORY_ALLOCATED, 0x1000, 10, kCuda, 0);
  report(slot, TORCHPROF_MEMORY_ALLOCATED, 0x1000, 20, kCuda, 1);
  report(slot, TORCHPROF_MEMORY_ALLOCATED, 0x1000, 40, kCpu);
  report(slot, TORCHPROF_MEMORY_SEGMENT_RELEASED, 0x9000, 400, kCuda, 0);
  report(slot, TORCHPROF_MEMORY_OUT_OF_MEMORY, 0, 1U << 30U, kCuda, 0);
  report(slot, TORCHPROF_MEMORY_FREED, 0x1000, 10, kCuda, 0);
  report(slot, 99, 0x1000, 1);  // an action that no bridge of this version reports
  capture.stop();
  const Recording recording = read(capture);
  CHECK(sizes_of(recording) == Sizes{10, 20, 40, 1 << 30, -10});
  CHECK(totals_of(recording) == Sizes{10, 20, 40, 10, 0});
  CHECK(flags_of(recording) == Flags{0, 0, 0, kMemoryOutOfMemory, kMemoryFree});
  CHECK(recording.memory[0].total_reserved_bytes == 1000);
  CHECK(recording.memory[1].total_reserved_bytes == -1);
  CHECK(recording.memory[4].total_reserved_bytes == 600);
  CHECK(recording.memory[1].device == 1);
  CHECK(recording.memory[1].device_type == kCuda);
}

TEST_CASE("sizes that no allocator can meet do no harm") {
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  for (std::uint64_t address = 1; address < 4; ++address) allocate(slot, address, UINT64_MAX);
  free_block(slot, 2);
  capture.stop();
  const Recording recording = read(capture);
  CHECK(sizes_of(recording) == Sizes{INT64_MAX, INT64_MAX, INT64_MAX, -INT64_MAX});
}

TEST_CASE("a thread that only frees has a track") {
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  allocate(slot, 0x1000, 5);
  std::thread([&] { free_block(slot, 0x1000); }).join();
  capture.stop();
  const Recording recording = read(capture);
  REQUIRE(recording.memory.size() == 2);
  REQUIRE(recording.tracks.size() == 2);
  CHECK(recording.memory[0].track != recording.memory[1].track);
  CHECK(sizes_of(recording) == Sizes{5, -5});
}

TEST_CASE("each slot records for itself, and a stopped one nothing") {
  Capture first("", kSmallCapBytes);
  Capture second("", kSmallCapBytes);
  const std::uint32_t first_slot = start(first);
  const std::uint32_t second_slot = start(second);
  allocate(first_slot, 1, 1);
  allocate(second_slot, 2, 2);
  first.stop();
  allocate(first_slot, 3, 3);
  free_block(second_slot, 2);
  second.stop();
  CHECK(sizes_of(read(first)) == Sizes{1});
  CHECK(sizes_of(read(second)) == Sizes{2, -2});
}

TEST_CASE("what does not fit is dropped and counted") {
  Capture capture("", kMinCapBytes);
  const std::uint32_t slot = start(capture);
  constexpr std::uint64_t kEvents = 20'000;
  for (std::uint64_t address = 1; address <= kEvents; ++address) allocate(slot, address, 1);
  capture.stop();
  const Recording recording = read(capture);
  CHECK(recording.memory.size() > 1000);
  CHECK(recording.memory.size() + drops(capture, DropReason::kByteCap) == kEvents);
}

TEST_CASE("threads allocate and free each other's blocks while captures start and stop") {
  constexpr int kThreads = 4;
  constexpr std::uint64_t kBlocks = 2'000;
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (std::uint64_t number = 0; number < kThreads; ++number) {
    threads.emplace_back([&done, number] {
      for (std::uint64_t block = 0; block < kBlocks || !done.load(); ++block) {
        allocate(0, number << 32U | (block % kBlocks), 8);
        free_block(0, ((number + 1) % kThreads) << 32U | (block % kBlocks));
      }
    });
  }
  for (int round = 0; round < 5; ++round) {
    Capture capture("", kSmallCapBytes);
    REQUIRE(capture.start() == 0);
    capture.stop();
    for (const MemoryRecord& record : read(capture).memory) CHECK(record.total_allocated_bytes >= 0);
  }
  done.store(true);
  for (std::thread& thread : threads) thread.join();
}
