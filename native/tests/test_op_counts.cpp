// Counting by hooks, as the bridge calls them: many threads, collections meanwhile, forks, late destructors.
#include <doctest/doctest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/aggregate/op_aggregator.h"
#include "fake_torch.h"

using namespace torchprof;           // NOLINT(google-build-using-namespace)
using namespace torchprof::testing;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::size_t kNames = 1000;

// Stands for an at::RecordFunction that is counted.
struct CountedOp {
  char placeholder = 0;

  void start(const char* name, unsigned flags = 0) const {
    core_table().count_start(this, name, static_cast<std::uint8_t>(flags));
  }
  void end(bool is_async = false) const { core_table().count_end(this, is_async ? 1 : 0); }
};

void count_op(const char* name, unsigned flags = 0) {
  const CountedOp op;
  op.start(name, flags);
  op.end();
}

std::unique_ptr<OpAggregator> counting_all(bool with_durations = false) {
  auto counts = std::make_unique<OpAggregator>(kNames, with_durations);
  counts->start();
  counts->set_weight(1);
  return counts;
}

std::map<std::string, std::uint64_t> calls_of(OpAggregator& counts) {
  const OpCountColumns columns = counts.collect();
  std::map<std::string, std::uint64_t> calls;
  for (std::size_t row = 0; row < columns.name.size(); ++row) {
    calls[std::string(columns.name[row])] += columns.calls[row];
  }
  return calls;
}

std::uint64_t drops(const OpAggregator& counts, CountDrop reason) {
  return counts.drops()[static_cast<std::size_t>(reason)];
}

using Calls = std::map<std::string, std::uint64_t>;

}  // namespace

TEST_CASE("ops are counted between start and stop, and go on where they stopped") {
  auto counts = std::make_unique<OpAggregator>(kNames, false);
  count_op("early");
  counts->start();
  count_op("unweighted");
  counts->set_weight(1);
  count_op("op");
  counts->stop();
  counts->stop();
  count_op("late");
  CHECK(calls_of(*counts) == Calls{{"op", 1}});
  counts->start();
  count_op("op");
  CHECK(calls_of(*counts) == Calls{{"op", 2}});
  CHECK(counts->counted() == 2);
}

TEST_CASE("one counts at a time, and its end makes room for the next") {
  auto first = counting_all();
  first->start();  // once more is nothing
  OpAggregator second(kNames, false);
  CHECK_THROWS_AS(second.start(), std::runtime_error);
  count_op("first");
  first.reset();
  second.start();
  second.set_weight(1);
  count_op("second");
  CHECK(calls_of(second) == Calls{{"second", 1}});
}

TEST_CASE("unusable numbers are refused") {
  CHECK_THROWS_AS(OpAggregator(0, false), std::invalid_argument);
  CHECK_THROWS_AS(OpAggregator(kMaxCountedNames + 1, false), std::invalid_argument);
  OpAggregator counts(1, false);
  CHECK_THROWS_AS(counts.set_weight(std::uint64_t{1} << 31U), std::invalid_argument);
}

TEST_CASE("threads that ended keep their counts, and the next ones use their memory") {
  auto counts = counting_all();
  for (int i = 0; i < 50; ++i) {
    std::thread([] { count_op("op"); }).join();
  }
  CHECK(calls_of(*counts) == Calls{{"op", 50}});
}

TEST_CASE("a capture records the same ops beside the counts") {
  auto counts = counting_all();
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  for (int i = 0; i < 100; ++i) {
    FakeOp recorded;
    CountedOp counted;
    recorded.start(slot, "op");
    counted.start("op");
    recorded.end(slot);
    counted.end();
  }
  capture.stop();
  CHECK(read(capture).events.size() == 100);
  CHECK(calls_of(*counts) == Calls{{"op", 100}});
}

TEST_CASE("an op may end on another thread, also after its own has ended") {
  auto counts = counting_all();
  CountedOp handed;
  handed.start("handed");
  std::thread([&] { handed.end(); }).join();
  CountedOp orphan;
  std::thread([&] { orphan.start("orphan", TORCHPROF_COUNT_ASYNC); }).join();
  orphan.end(true);
  CountedOp weighted;
  weighted.start("began with 1");
  counts->set_weight(2);
  std::thread([&] { weighted.end(); }).join();
  CHECK(calls_of(*counts) == Calls{{"began with 1", 1}, {"handed", 1}, {"orphan", 1}});
  CHECK(drops(*counts, CountDrop::kUnmatchedEnd) == 0);
  const CountedOp unknown;
  unknown.end();
  CHECK(drops(*counts, CountDrop::kUnmatchedEnd) == 1);
}

TEST_CASE("an op in a late destructor of a thread is counted") {
  static pthread_key_t key;
  REQUIRE(::pthread_key_create(&key, [](void*) { count_op("late"); }) == 0);
  auto counts = counting_all();
  std::thread([] {
    count_op("op");
    REQUIRE(::pthread_setspecific(key, &key) == 0);
  }).join();
  CHECK(calls_of(*counts) == Calls{{"late", 1}, {"op", 1}});
  ::pthread_key_delete(key);
}

TEST_CASE("collections never go backwards while threads count, and miss nothing in the end") {
  constexpr std::size_t kThreads = 4;
  constexpr std::uint64_t kOps = 20'000;
  auto counts = counting_all(true);
  std::atomic<std::size_t> running{kThreads};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&running, t] {
      const std::string own = "own " + std::to_string(t);
      for (std::uint64_t i = 0; i < kOps; ++i) {
        const CountedOp outer;
        outer.start("outer");
        count_op(own.c_str());
        outer.end();
      }
      running.fetch_sub(1);
    });
  }
  std::map<std::string, std::array<std::uint64_t, 3>> before;
  bool all_ended = false;
  do {
    all_ended = running.load() == 0;
    const OpCountColumns columns = counts->collect();
    for (std::size_t row = 0; row < columns.name.size(); ++row) {
      auto& last = before[std::string(columns.name[row])];
      const std::array<std::uint64_t, 3> now{columns.calls[row], columns.total_ns[row], columns.self_ns[row]};
      for (std::size_t i = 0; i < now.size(); ++i) {
        REQUIRE(now[i] >= last[i]);
      }
      last = now;
    }
  } while (!all_ended);
  for (std::thread& thread : threads) {
    thread.join();
  }
  const OpCountColumns columns = counts->collect();
  CHECK(columns.name.size() == kThreads + 1);
  for (std::size_t row = 0; row < columns.name.size(); ++row) {
    CHECK(columns.calls[row] == (columns.name[row] == "outer" ? kThreads * kOps : kOps));
    std::uint64_t in_buckets = 0;
    for (std::size_t bucket = 0; bucket < kDurationBuckets; ++bucket) {
      in_buckets += columns.duration_counts[(row * kDurationBuckets) + bucket];
    }
    CHECK(in_buckets == columns.calls[row]);
    CHECK(columns.self_ns[row] <= columns.total_ns[row]);
  }
  CHECK(counts->counted() == 2 * kThreads * kOps);
  CHECK(counts->drops() == CountDrops{});
}

TEST_CASE("threads with more names than there is room for agree on what has one") {
  constexpr std::size_t kThreads = 4;
  auto counts = counting_all();
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([] {
      for (std::size_t i = 0; i < 2 * kNames; ++i) {
        count_op(("op " + std::to_string(i)).c_str());
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  Calls calls = calls_of(*counts);
  CHECK(calls.size() == kNames + 1);
  CHECK(calls.at("(name table full)") == kThreads * kNames);
  calls.erase("(name table full)");
  for (const auto& [name, count] : calls) {
    REQUIRE(count == kThreads);
  }
  CHECK(drops(*counts, CountDrop::kNameTableFull) == kThreads * kNames);
}

TEST_CASE("counting starts, is switched, stops and goes away while threads count") {
  constexpr std::size_t kThreads = 3;
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> turns{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      while (!done.load()) {
        const CountedOp outer;
        outer.start("outer");
        count_op("inner");
        outer.end();
        turns.fetch_add(1);
      }
    });
  }
  const auto wait_for_turns = [&] {
    const std::uint64_t before = turns.load();
    while (turns.load() < before + (4 * kThreads)) {
      std::this_thread::yield();
    }
  };
  for (int round = 0; round < 30; ++round) {
    auto counts = counting_all();
    wait_for_turns();
    counts->set_weight(0);
    counts->set_weight(5);
    wait_for_turns();
    CHECK(calls_of(*counts).size() == 2);
    counts->stop();
    const std::uint64_t interrupted = drops(*counts, CountDrop::kInterrupted);
    CHECK(interrupted <= 4 * kThreads);
  }
  done.store(true);
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST_CASE("ops handed from thread to thread are all counted") {
  constexpr std::size_t kOps = 2'000;
  auto counts = counting_all();
  std::atomic<const CountedOp*> mailbox{nullptr};
  std::vector<CountedOp> ops(kOps);
  std::thread ender([&] {
    for (std::size_t i = 0; i < kOps; ++i) {
      const CountedOp* op = nullptr;
      while ((op = mailbox.exchange(nullptr)) == nullptr) {
        std::this_thread::yield();
      }
      op->end();
    }
  });
  for (const CountedOp& op : ops) {
    op.start("handed");
    const CountedOp* none = nullptr;
    while (!mailbox.compare_exchange_weak(none, &op)) {
      none = nullptr;
      std::this_thread::yield();
    }
    count_op("between");
  }
  ender.join();
  CHECK(calls_of(*counts) == Calls{{"between", kOps}, {"handed", kOps}});
  CHECK(counts->drops() == CountDrops{});
}

TEST_CASE("the child of a fork has counted nothing and counts when told to") {
  auto counts = counting_all();
  count_op("parent");
  const CountedOp open;
  open.start("open");
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    open.end();
    count_op("child");
    bool right = counts->lost_in_fork() && counts->collect().name.empty() && counts->counted() == 0 &&
                 counts->drops() == CountDrops{};
    OpAggregator own(kNames, false);
    own.start();
    own.set_weight(1);
    std::thread([] { count_op("child"); }).join();
    count_op("child");
    right = right && calls_of(own) == Calls{{"child", 2}};
    counts.reset();
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  open.end();
  CHECK(calls_of(*counts) == Calls{{"open", 1}, {"parent", 1}});
}
