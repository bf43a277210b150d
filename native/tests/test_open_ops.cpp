// The open ops of one thread, and one thread's counts against a model: times are given, so all is exact.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/aggregate/duration_buckets.h"
#include "core/aggregate/op_names.h"
#include "core/aggregate/open_ops.h"
#include "core/aggregate/shared_counts.h"
#include "core/aggregate/thread_counts.h"

using namespace torchprof;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::size_t kTableNames = 64;

// One thread that counts, on a clock of its own.
struct Counter {
  explicit Counter(bool with_durations = false, double ns_per_tick = 1.0)
      : shared(kTableNames, with_durations, ns_per_tick), thread(shared) {
    shared.set_weight(1, 0);
  }

  void begin(const void* key, const char* name, std::uint64_t at, unsigned flags = 0) {
    if (!thread.open_ops().has_room()) {
      thread.make_room();
    }
    if (OpenCountedOp* op = thread.begin(key, name, static_cast<std::uint8_t>(flags)); op != nullptr) {
      op->start_ticks.store(at);
    }
  }
  bool end(const void* key, std::uint64_t at, bool is_async = false) { return thread.end(key, is_async, at); }

  // {calls, total, self}
  std::array<std::uint64_t, 3> cell(const char* name, Phase phase = Phase::kOther, bool is_user = false) {
    std::array<std::uint64_t, 3> found{};
    const std::uint32_t wanted = cell_index(shared.names().find(name, is_user).id, phase);
    thread.cells().for_each([&](std::size_t index, const CountCell& cell) {
      if (index == wanted) {
        found = {cell.calls.load(), cell.total_ticks.load(), cell.self_ticks.load()};
      }
    });
    return found;
  }
  std::uint64_t drops(CountDrop reason) const {
    CountDrops drops{};
    thread.add_drops(drops);
    return drops[static_cast<std::size_t>(reason)];
  }

  SharedCounts shared;
  ThreadCounts thread;
};

using Cell = std::array<std::uint64_t, 3>;

const void* key_of(std::uintptr_t number) { return reinterpret_cast<const void*>(number); }

}  // namespace

TEST_CASE("an op's self time is what its synchronous children leave") {
  Counter counter;
  counter.begin(key_of(1), "outer", 100);
  counter.begin(key_of(2), "inner", 110);
  counter.begin(key_of(3), "innermost", 115);
  CHECK(counter.end(key_of(3), 117));
  CHECK(counter.end(key_of(2), 130));
  counter.begin(key_of(2), "inner", 140);
  CHECK(counter.end(key_of(2), 145));
  CHECK(counter.end(key_of(1), 200));
  CHECK(counter.cell("outer") == Cell{1, 100, 75});
  CHECK(counter.cell("inner") == Cell{2, 25, 23});
  CHECK(counter.cell("innermost") == Cell{1, 2, 2});
  CHECK(counter.thread.counted() == 4);
}

TEST_CASE("an async op takes nothing from what it began in, and nothing is taken from it") {
  Counter counter;
  counter.begin(key_of(1), "outer", 0);
  counter.begin(key_of(2), "collective", 10, TORCHPROF_COUNT_ASYNC);
  counter.begin(key_of(3), "inner", 20);
  CHECK(counter.end(key_of(3), 25));
  CHECK(counter.end(key_of(1), 50));  // before the async one
  CHECK(counter.end(key_of(2), 90, true));
  CHECK(counter.cell("outer") == Cell{1, 50, 45});
  CHECK(counter.cell("collective") == Cell{1, 80, 80});
  CHECK(counter.cell("inner") == Cell{1, 5, 5});
}

TEST_CASE("ops that end out of order are counted, and self time is never negative") {
  Counter counter;
  counter.begin(key_of(1), "outer", 0);
  counter.begin(key_of(2), "first", 10);
  counter.begin(key_of(3), "second", 20);
  CHECK(counter.end(key_of(2), 80));
  CHECK(counter.end(key_of(3), 90));
  CHECK(counter.end(key_of(1), 100));
  CHECK(counter.cell("first") == Cell{1, 70, 70});
  CHECK(counter.cell("second") == Cell{1, 70, 70});
  CHECK(counter.cell("outer") == Cell{1, 100, 0});
}

TEST_CASE("an op that another thread ends hands its children's time to what encloses it") {
  Counter counter;
  Counter other;
  counter.begin(key_of(1), "outer", 0);
  counter.begin(key_of(2), "future", 10);
  counter.begin(key_of(3), "inner", 20);
  CHECK(counter.end(key_of(3), 25));
  const std::optional<ClaimedOp> claimed = counter.thread.open_ops().claim(key_of(2));
  REQUIRE(claimed.has_value());
  CHECK(claimed.value_or(ClaimedOp{}).start_ticks == 10);
  CHECK(!counter.thread.open_ops().claim(key_of(2)).has_value());
  counter.begin(key_of(4), "inner", 30);
  CHECK(counter.end(key_of(4), 37));
  CHECK(counter.end(key_of(1), 100));
  CHECK(counter.cell("outer") == Cell{1, 100, 88});
  CHECK(counter.cell("inner") == Cell{2, 12, 12});
  CHECK(!other.end(key_of(2), 60));
}

TEST_CASE("phases begin and are inherited") {
  Counter counter;
  const auto nested = [&](const char* outer, unsigned outer_flags, const char* inner, unsigned inner_flags) {
    counter.begin(key_of(1), outer, 0, outer_flags);
    counter.begin(key_of(2), inner, 0, inner_flags);
    counter.end(key_of(2), 1);
    counter.end(key_of(1), 1);
  };
  constexpr unsigned kUser = TORCHPROF_COUNT_USER;
  constexpr unsigned kSequenced = TORCHPROF_COUNT_SEQUENCED;
  nested("train", kUser, "aten::mm", kSequenced);
  CHECK(counter.cell("train", Phase::kOther, true)[0] == 1);
  CHECK(counter.cell("aten::mm", Phase::kForward)[0] == 1);
  nested("aten::linear", kSequenced, "aten::t", 0);
  CHECK(counter.cell("aten::t", Phase::kForward)[0] == 1);
  nested("MmBackward0", TORCHPROF_COUNT_BACKWARD, "aten::mm", kSequenced);
  CHECK(counter.cell("MmBackward0", Phase::kBackward)[0] == 1);
  CHECK(counter.cell("aten::mm", Phase::kBackward)[0] == 1);
  nested("autograd::engine::evaluate_function: MmBackward0", 0, "aten::add_", 0);
  CHECK(counter.cell("aten::add_", Phase::kBackward)[0] == 1);
  nested("Optimizer.step#SGD.step", kUser, "aten::add_", 0);
  CHECK(counter.cell("aten::add_", Phase::kOptimizer)[0] == 1);
  nested("Optimizer.zero_grad#SGD.zero_grad", kUser, "aten::zero_", 0);
  CHECK(counter.cell("aten::zero_", Phase::kOptimizer)[0] == 1);
  nested("Optimizer.step#LBFGS.step", kUser, "MmBackward0", TORCHPROF_COUNT_BACKWARD);
  CHECK(counter.cell("MmBackward0", Phase::kBackward)[0] == 2);
  // The same text as an operator begins nothing.
  nested("Optimizer.step#SGD.step", 0, "aten::mul_", 0);
  CHECK(counter.cell("aten::mul_", Phase::kOther)[0] == 1);
  counter.shared.set_inference(true);
  nested("aten::relu", 0, "aten::clamp_min", 0);
  CHECK(counter.cell("aten::clamp_min", Phase::kForward)[0] == 1);
}

TEST_CASE("every counted op stands for the weight of its time") {
  Counter counter;
  counter.shared.set_weight(7, 0);
  counter.begin(key_of(1), "op", 0);
  counter.begin(key_of(2), "inner", 2);
  CHECK(counter.end(key_of(2), 5));
  CHECK(counter.end(key_of(1), 10));
  CHECK(counter.cell("op") == Cell{7, 70, 49});
  CHECK(counter.cell("inner") == Cell{7, 21, 21});
  CHECK(counter.thread.counted() == 2);
}

TEST_CASE("an op counts as it was when it began, also when it ends after counting was switched") {
  Counter counter;
  counter.begin(key_of(1), "outer", 0);
  counter.begin(key_of(2), "inner", 10);
  CHECK(counter.end(key_of(2), 15));
  counter.shared.set_weight(0, 40);
  counter.begin(key_of(3), "paused", 50);
  CHECK(!counter.end(key_of(3), 90));
  CHECK(counter.end(key_of(1), 100));
  // Of what ran after 40 nothing is known.
  CHECK(counter.cell("outer") == Cell{1, 100, 35});
  CHECK(counter.cell("paused") == Cell{0, 0, 0});
}

TEST_CASE("an op that is open when its thread begins one of another weight is given up") {
  Counter counter;
  counter.begin(key_of(1), "outer", 0);
  counter.begin(key_of(2), "inner", 1);
  counter.shared.set_weight(0, 5);
  counter.shared.set_weight(1, 15);
  counter.begin(key_of(2), "same key", 20);  // the place of a RecordFunction is used again
  CHECK(counter.end(key_of(2), 25));
  CHECK(!counter.end(key_of(1), 30));
  counter.thread.end_of_unknown();
  CHECK(counter.cell("outer") == Cell{0, 0, 0});
  CHECK(counter.cell("inner") == Cell{0, 0, 0});
  CHECK(counter.cell("same key") == Cell{1, 5, 5});
  CHECK(counter.drops(CountDrop::kInterrupted) == 2);
  CHECK(counter.drops(CountDrop::kUnmatchedEnd) == 0);
}

TEST_CASE("more open ops than fit are given up, and counting goes on") {
  Counter counter;
  for (std::uintptr_t i = 1; i <= kMaxOpenCountedOps + 1; ++i) {
    counter.begin(key_of(i), "never ends", i);
  }
  CHECK(counter.drops(CountDrop::kStackTooDeep) == kMaxOpenCountedOps);
  counter.begin(key_of(1), "op", 10);
  CHECK(counter.end(key_of(1), 12));
  CHECK(counter.cell("op") == Cell{1, 2, 2});
  CHECK(!counter.end(key_of(2), 13));
  counter.thread.end_of_unknown();
  CHECK(counter.drops(CountDrop::kUnmatchedEnd) == 0);
}

TEST_CASE("gaps below an op that stays open are closed") {
  Counter counter;
  counter.begin(key_of(1), "outer", 0);
  // Always one op open on top of those that others have ended.
  const std::uintptr_t last = 5 * kMaxOpenCountedOps;
  for (std::uintptr_t i = 2; i <= last; ++i) {
    counter.begin(key_of(i), "future", i);
    if (i > 2) {
      REQUIRE(counter.thread.open_ops().claim(key_of(i - 1)).has_value());
    }
  }
  CHECK(counter.end(key_of(last), last + 3));
  CHECK(counter.end(key_of(1), last + 10));
  CHECK(counter.cell("outer") == Cell{1, last + 10, last + 7});
  CHECK(counter.cell("future") == Cell{1, 3, 3});
  CHECK(counter.drops(CountDrop::kStackTooDeep) == 0);
}

TEST_CASE("histograms put a bound into its own bucket, in every bucket") {
  // 2^-24 s a tick, exactly: the first bound is 16 ticks.
  constexpr std::uint64_t kFirstBound = 16;
  Counter counter(true, std::ldexp(1e9, -24));
  const DurationBuckets& buckets = counter.shared.buckets();
  CHECK(buckets.index(0) == 0);
  CHECK(buckets.index(1) == 0);
  for (std::size_t bucket = 0; bucket + 1 < kDurationBuckets; ++bucket) {
    const std::uint64_t bound = kFirstBound << bucket;
    CHECK(buckets.index(bound) == bucket);
    CHECK(buckets.index(bound + 1) == bucket + 1);
  }
  CHECK(buckets.index(~std::uint64_t{0}) == kDurationBuckets - 1);

  counter.shared.set_weight(3, 0);
  counter.begin(key_of(1), "op", 100);
  counter.end(key_of(1), 100 + kFirstBound);
  counter.begin(key_of(1), "op", 200);
  counter.end(key_of(1), 200 + (4 * kFirstBound) + 1);
  std::map<std::size_t, std::uint64_t> filled;
  counter.thread.cells().for_each([&](std::size_t, const CountCell& cell) {
    if (const DurationHistogram* durations = cell.durations.load(); durations != nullptr) {
      for (std::size_t bucket = 0; bucket < kDurationBuckets; ++bucket) {
        if (const std::uint64_t count = durations->counts[bucket].load(); count != 0) {
          filled[bucket] += count;
        }
      }
    }
  });
  CHECK(filled == std::map<std::size_t, std::uint64_t>{{0, 3}, {3, 3}});
}

TEST_CASE("one pointer carries many names, and a name many pointers") {
  Counter counter;
  std::array<char, 32> temporary{};
  for (int round = 0; round < 3; ++round) {
    for (const std::string name : {"aten::add", "aten::add_", "aten::addmm"}) {
      std::copy_n(name.c_str(), name.size() + 1, temporary.begin());
      counter.begin(key_of(1), temporary.data(), 0);
      counter.end(key_of(1), 1);
      counter.begin(key_of(1), name.c_str(), 0);
      counter.end(key_of(1), 1);
    }
  }
  for (const char* name : {"aten::add", "aten::add_", "aten::addmm"}) {
    CHECK(counter.cell(name) == Cell{6, 6, 6});
  }
}

TEST_CASE("names are bounded, user scopes to half, and what found no room is counted together") {
  Counter counter;
  const auto count = [&](const std::string& name, unsigned flags) {
    counter.begin(key_of(1), name.c_str(), 0, flags);
    counter.end(key_of(1), 1);
  };
  for (std::size_t i = 0; i < kTableNames; ++i) {
    count("step " + std::to_string(i), TORCHPROF_COUNT_USER);
  }
  for (std::size_t i = 0; i < kTableNames; ++i) {
    count("op " + std::to_string(i), 0);
  }
  count("op 0", 0);  // known ones keep their name
  CHECK(counter.cell("step 0", Phase::kOther, true)[0] == 1);
  CHECK(counter.cell("op 0")[0] == 2);
  CHECK(counter.drops(CountDrop::kNameTableFull) == kTableNames);
  std::uint64_t calls = 0;
  std::array<std::uint64_t, 2> overflow{};
  counter.thread.cells().for_each([&](std::size_t index, const CountCell& cell) {
    calls += cell.calls.load();
    if (index / kPhases < overflow.size()) {
      overflow[index / kPhases] += cell.calls.load();
    }
  });
  CHECK(calls == (2 * kTableNames) + 1);
  CHECK(overflow == std::array<std::uint64_t, 2>{kTableNames / 2, kTableNames / 2});
}

TEST_CASE("long names are cut and found again") {
  OpNames names(kTableNames);
  const std::string prefix(kMaxOpNameBytes, 'x');
  const OpName& cut = names.find((prefix + "a").c_str(), false);
  CHECK(cut.text() == prefix);
  CHECK(&names.find((prefix + "b").c_str(), false) == &cut);
  CHECK(&names.find(prefix.c_str(), false) == &cut);
  CHECK(&names.find(prefix.substr(1).c_str(), false) != &cut);
  CHECK(&names.find(prefix.c_str(), true) != &cut);
  CHECK(names.find("", false).text() == std::string());
}

TEST_CASE("random ops count as a model says") {
  constexpr int kRounds = 200;
  // NOLINTNEXTLINE(cert-msc32-c,cert-msc51-cpp): the same numbers in every run
  std::mt19937 random(20'240'601);
  const auto below = [&](std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random);
  };
  struct ModelOp {
    const void* key;
    std::size_t name;
    std::uint64_t start;
    std::uint64_t children;
    bool is_async;
    std::size_t encloser;  // place in `ops`; itself = none
    bool is_open;
  };
  const std::array<std::string, 5> names{"a", "b", "c", "d", "e"};
  for (int round = 0; round < kRounds; ++round) {
    Counter counter;
    std::vector<ModelOp> ops;
    std::vector<std::size_t> open;
    std::map<std::size_t, Cell> expected;
    std::uint64_t now = 1;
    // The innermost synchronous op still open, from `from` on outwards; its own place where there is none.
    const auto encloser_of = [&](std::size_t op) {
      std::size_t at = op;
      while (ops[at].encloser != at) {
        at = ops[at].encloser;
        if (ops[at].is_open) {
          return at;
        }
      }
      return op;
    };
    for (int event = 0; event < 300; ++event) {
      now += below(20);
      if (open.empty() || (open.size() < 40 && below(2) == 0)) {
        const std::size_t place = ops.size();
        std::size_t encloser = place;
        for (std::size_t i = open.size(); i-- > 0;) {
          if (!ops[open[i]].is_async) {
            encloser = open[i];
            break;
          }
        }
        const bool is_async = below(6) == 0;
        ops.push_back({.key = key_of(place + 1),
                       .name = below(names.size()),
                       .start = now,
                       .children = 0,
                       .is_async = is_async,
                       .encloser = is_async ? place : encloser,
                       .is_open = true});
        open.push_back(place);
        counter.begin(ops[place].key, names[ops[place].name].c_str(), now,
                      is_async ? TORCHPROF_COUNT_ASYNC : 0U);
        continue;
      }
      // Mostly the innermost.
      const std::size_t at = below(4) == 0 ? below(open.size()) : open.size() - 1;
      const std::size_t place = open[at];
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(at));
      ModelOp& op = ops[place];
      op.is_open = false;
      const std::uint64_t duration = now - op.start;
      const std::size_t encloser = encloser_of(place);
      if (below(5) == 0) {
        // Ended by another thread: what it enclosed ran inside what encloses it.
        REQUIRE(counter.thread.open_ops().claim(op.key).has_value());
        if (encloser != place) {
          ops[encloser].children += op.children;
        }
        op.children = 0;
        continue;
      }
      REQUIRE(counter.end(op.key, now, op.is_async));
      Cell& cell = expected[op.name];
      cell[0] += 1;
      cell[1] += duration;
      cell[2] += duration > op.children ? duration - op.children : 0;
      if (encloser != place && !op.is_async) {
        ops[encloser].children += duration;
      }
    }
    for (std::size_t name = 0; name < names.size(); ++name) {
      REQUIRE(counter.cell(names[name].c_str()) == expected[name]);
    }
  }
}
