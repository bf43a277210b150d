// What the recordings of a process may take together, and what happens at that bound.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "core/memory_budget.h"
#include "fake_torch.h"

using namespace torchprof;           // NOLINT(google-build-using-namespace)
using namespace torchprof::testing;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t kManyOps = 200'000;  // 9.6 MB

// Bounds what recordings may take beside what other tests hold, until it is gone.
class Bound {
 public:
  explicit Bound(std::uint64_t size_bytes) : before_(process_memory.taken_bytes()) {
    process_memory.set_limit(before_ + size_bytes);
  }
  ~Bound() { process_memory.set_limit(kUnlimited); }
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;
  [[nodiscard]] std::uint64_t taken() const { return process_memory.taken_bytes() - before_; }

 private:
  std::uint64_t before_;
};

void record_ops(std::uint32_t slot, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    record_op(slot, "op");
  }
}

}  // namespace

TEST_CASE("a budget is taken whole or not at all, by many threads too") {
  MemoryBudget budget;
  CHECK(budget.take(kUnlimited / 2));
  budget.forget_taken();
  budget.set_limit(1'000);
  CHECK_FALSE(budget.take(1'001));
  CHECK(budget.take(1'000));
  CHECK_FALSE(budget.take(1));
  budget.take_anyway(5);
  CHECK(budget.taken_bytes() == 1'005);
  CHECK_FALSE(budget.take(1));
  budget.give_back(1'005);
  budget.set_limit(30'000);
  std::vector<std::thread> threads;
  std::vector<std::size_t> successes(4, 0);
  for (std::size_t& count : successes) {
    threads.emplace_back([&budget, &count] {
      for (int i = 0; i < 10'000; ++i) {
        count += budget.take(1) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(successes[0] + successes[1] + successes[2] + successes[3] == 30'000);
  CHECK(budget.taken_bytes() == 30'000);
}

TEST_CASE("at the bound a recording drops and counts; what it took it gives back") {
  const Bound bound(2U << 20U);
  {
    Capture capture("", kCapBytes);
    const std::uint32_t slot = start(capture);
    record_ops(slot, kManyOps);
    CHECK(bound.taken() <= 2U << 20U);
    capture.stop();
    const std::uint64_t dropped = drops(capture, DropReason::kMemoryLimit);
    const std::size_t recorded = read(capture).events.size();
    CHECK(dropped > 0);
    CHECK(recorded > 30'000);  // 1.5 MB: next to all that there was
    CHECK(recorded + dropped == kManyOps);
    CHECK(all_drops(capture) == dropped);
    CHECK(bound.taken() <= capture.bytes().size());
    CHECK(bound.taken() > recorded * sizeof(OpRecord));
  }
  CHECK(bound.taken() == 0);
}

TEST_CASE("two recordings share the bound, and a stopped one counts for as long as it is held") {
  const Bound bound(4U << 20U);
  auto first = std::make_unique<Capture>("", kCapBytes);
  record_ops(start(*first), kManyOps);
  first->stop();
  Capture second("", kCapBytes);
  const std::uint32_t slot = start(second);
  record_ops(slot, 60'000);
  const std::uint64_t dropped = drops(second, DropReason::kMemoryLimit);
  CHECK(dropped > 0);
  CHECK(second.recorded() + dropped == 60'000);
  CHECK(second.recorded() > 0);  // what no recording can do without it has
  first.reset();
  record_ops(slot, 300'000);  // tries again now and then
  CHECK(second.recorded() > 40'000);
  second.stop();
}

TEST_CASE("without a limit nothing is dropped for it") {
  Capture capture("", kCapBytes);
  record_ops(start(capture), kManyOps);
  capture.stop();
  CHECK(read(capture).events.size() == kManyOps);
  CHECK(all_drops(capture) == 0);
}

#if !defined(__SANITIZE_THREAD__)  // as in test_processes.cpp

TEST_CASE("a child has taken nothing, and what it inherits it does not give back") {
  auto capture = std::make_unique<Capture>("", kSmallCapBytes);
  start(*capture);
  capture->stop();
  REQUIRE(process_memory.taken_bytes() > 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_empty = process_memory.taken_bytes() == 0;
    capture.reset();
    ::_exit(is_empty && process_memory.taken_bytes() == 0 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

#endif
