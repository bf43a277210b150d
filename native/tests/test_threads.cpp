// Ops that cross threads, threads that come and go, captures that start and stop meanwhile.
#include <doctest/doctest.h>
#include <pthread.h>

#include <atomic>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/thread_buffer.h"
#include "fake_torch.h"

using namespace torchprof;           // NOLINT(google-build-using-namespace)
using namespace torchprof::testing;  // NOLINT(google-build-using-namespace)

TEST_CASE("an op may end on another thread") {
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  FakeOp outer;
  FakeOp moved;
  outer.start(slot, "outer");
  moved.start(slot, "moved");
  std::thread([&] { moved.end(slot); }).join();
  record_op(slot, "after");
  outer.end(slot);
  capture.stop();
  const Recording recording = read(capture);
  REQUIRE(recording.events.size() == 3);
  REQUIRE(recording.tracks.size() == 2);
  const std::size_t row = only_row(recording, "moved");
  CHECK(recording.events.flags[row] == kFlagOtherThread);
  CHECK(recording.events.track[row] == recording.events.track[only_row(recording, "outer")]);
  CHECK(recording.events.end_track[row] != recording.events.track[row]);
  CHECK(recording.events.flags[only_row(recording, "outer")] == 0);
  CHECK(all_drops(capture) == 0);
}

TEST_CASE("an op may end after its thread") {
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  FakeOp ended;
  FakeOp left_open;
  std::thread([&] {
    ended.start(slot, "ended");
    left_open.start(slot, "left open");
  }).join();
  ended.end(slot);
  capture.stop();
  left_open.end(slot);
  const Recording recording = read(capture);
  REQUIRE(recording.events.size() == 2);
  CHECK(recording.events.flags[only_row(recording, "ended")] == kFlagOtherThread);
  CHECK(recording.events.flags[only_row(recording, "left open")] == kFlagUnfinished);
  CHECK(all_drops(capture) == 0);
}

namespace {

std::uint32_t destructor_slot = 0;

struct RecordsInDestructor {
  ~RecordsInDestructor() { record_op(destructor_slot, "thread_local destructor"); }
};

void record_in_key_destructor(void*) { record_op(destructor_slot, "key destructor"); }

}  // namespace

TEST_CASE("ops in the destructors of a thread are recorded on its track") {
  pthread_key_t key{};
  REQUIRE(pthread_key_create(&key, record_in_key_destructor) == 0);
  Capture capture("", kSmallCapBytes);
  destructor_slot = start(capture);
  std::thread([&] {
    thread_local const RecordsInDestructor late;
    static_cast<void>(&late);
    pthread_setspecific(key, &key);
    record_op(destructor_slot, "body");
  }).join();
  capture.stop();
  pthread_key_delete(key);
  const Recording recording = read(capture);
  CHECK(recording.events.size() == 3);
  CHECK(recording.tracks.size() == 1);
  CHECK(count_named(recording, "thread_local destructor") == 1);
  CHECK(count_named(recording, "key destructor") == 1);
}

TEST_CASE("threads older than the capture are recorded, under their own names") {
  std::latch started(1);
  std::latch go(1);
  std::uint32_t slot = 0;
  std::thread older([&] {
    pthread_setname_np(pthread_self(), "older");
    started.count_down();
    go.wait();
    record_op(slot, "op");
  });
  started.wait();
  Capture capture("", kSmallCapBytes);
  slot = start(capture);
  go.count_down();
  older.join();
  capture.stop();
  const Recording recording = read(capture);
  REQUIRE(recording.tracks.size() == 1);
  CHECK(recording.tracks[0].name == "older");
  CHECK(recording.tracks[0].torch_thread_id == 7);
  CHECK(recording.events.size() == 1);
}

TEST_CASE("32 threads record at once, nothing lost") {
  constexpr std::size_t kThreads = 32;
  constexpr std::size_t kOps = 5'000;
  Capture capture("", kCapBytes);
  const std::uint32_t slot = start(capture);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([slot, t] {
      const std::string name = "thread " + std::to_string(t);
      for (std::size_t i = 0; i < kOps; ++i) {
        FakeOp outer;
        outer.start(slot, name.c_str());
        record_op(slot, "inner");
        outer.end(slot);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  capture.stop();
  const Recording recording = read(capture);
  CHECK(recording.events.size() == 2 * kThreads * kOps);
  CHECK(count_named(recording, "inner") == kThreads * kOps);
  CHECK(count_named(recording, "thread 31") == kOps);
  CHECK(recording.tracks.size() == kThreads);
  CHECK(recording.problems.empty());
  CHECK(all_drops(capture) == 0);
}

TEST_CASE("thousands of short threads share the cap") {
  constexpr std::size_t kThreads = 5'000;
  constexpr std::size_t kOpsOfLong = 20'000;
  // Less than half of what a thread's first chunk, doubled once, would take 5,000 times.
  constexpr std::uint64_t kCap = kThreads * kGranuleBytes + (16ULL << 20U);
  Capture capture("", kCap);
  const std::uint32_t slot = start(capture);
  // A long thread's last chunk is mostly free: the short ones use the rest of it.
  std::thread([&] {
    for (std::size_t i = 0; i < kOpsOfLong; ++i) {
      record_op(slot, "long");
    }
  }).join();
  for (std::size_t t = 0; t < kThreads; ++t) {
    std::thread([&] { record_op(slot, "short"); }).join();
  }
  capture.stop();
  const Recording recording = read(capture);
  CHECK(count_named(recording, "short") == kThreads);
  CHECK(count_named(recording, "long") == kOpsOfLong);
  CHECK(recording.tracks.size() == kThreads + 1);
  CHECK(recording.problems.empty());
  CHECK(all_drops(capture) == 0);
}

TEST_CASE("captures start and stop while threads record") {
  constexpr std::uint64_t kThreads = 4;
  constexpr int kCaptures = 40;
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> turns{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      while (!done.load()) {
        for (std::uint32_t slot = 0; slot < 4; ++slot) {
          FakeOp outer;
          outer.start(slot, "outer");
          record_op(slot, "inner");
          outer.end(slot);
        }
        turns.fetch_add(1);
      }
    });
  }
  std::vector<std::thread> stoppers;
  for (int s = 0; s < 2; ++s) {
    stoppers.emplace_back([&] {
      for (int i = 0; i < kCaptures; ++i) {
        Capture capture("", kSmallCapBytes);
        capture.start();
        const std::uint64_t before = turns.load();
        while (turns.load() < before + 8) {
          std::this_thread::yield();
        }
        capture.stop();
        const Recording recording = read(capture);
        CHECK(recording.events.size() > 0);
        CHECK(recording.problems.empty());
        // Unlike torch, the threads here also report ends of ops that began before the capture.
        CHECK(drops(capture, DropReason::kUnmatchedEnd) <= 2 * kThreads);
      }
    });
  }
  for (std::thread& stopper : stoppers) {
    stopper.join();
  }
  done.store(true);
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST_CASE("ops handed from thread to thread all find their records") {
  constexpr std::size_t kThreads = 8;
  constexpr std::size_t kRounds = 500;
  Capture capture("", kCapBytes);
  const std::uint32_t slot = start(capture);
  std::vector<std::atomic<FakeOp*>> mailboxes(kThreads);
  std::atomic<std::size_t> senders{kThreads};
  const auto receive = [&](std::size_t thread) {
    if (const std::unique_ptr<FakeOp> received(mailboxes[thread].exchange(nullptr)); received != nullptr) {
      received->end(slot);
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < kRounds; ++i) {
        auto op = std::make_unique<FakeOp>();
        op->start(slot, "handed");
        FakeOp* expected = nullptr;
        while (!mailboxes[(t + 1) % kThreads].compare_exchange_weak(expected, op.get())) {
          expected = nullptr;
          receive(t);
          std::this_thread::yield();
        }
        static_cast<void>(op.release());  // the receiver's now
      }
      senders.fetch_sub(1);
      while (senders.load() != 0) {
        receive(t);
        std::this_thread::yield();
      }
      receive(t);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  capture.stop();
  const Recording recording = read(capture);
  CHECK(recording.events.size() == kThreads * kRounds);
  for (std::size_t row = 0; row < recording.events.size(); ++row) {
    REQUIRE((recording.events.flags[row] & kFlagUnfinished) == 0);
  }
  CHECK(all_drops(capture) == 0);
}
