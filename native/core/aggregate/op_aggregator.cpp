#include "core/aggregate/op_aggregator.h"

#include <array>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>

#include "core/aggregate/thread_counts.h"
#include "core/clock.h"
#include "core/registry.h"

namespace torchprof {
namespace {

struct MergedCell {
  std::uint64_t calls = 0;
  std::uint64_t total_ticks = 0;
  std::uint64_t self_ticks = 0;
  std::array<std::uint64_t, kDurationBuckets> durations{};
};

std::unique_ptr<SharedCounts> create(std::size_t max_names, bool with_durations) {
  if (max_names == 0 || max_names > kMaxCountedNames) {
    throw std::invalid_argument("the number of counted names must be between 1 and " +
                                std::to_string(kMaxCountedNames) + ", not " + std::to_string(max_names));
  }
  static_cast<void>(Registry::instance());  // hooks rely on it
  return std::make_unique<SharedCounts>(max_names, with_durations, ns_per_tick());
}

void merge(const CountCell& cell, MergedCell& merged) noexcept {
  merged.calls += cell.calls.load(std::memory_order_relaxed);
  merged.total_ticks += cell.total_ticks.load(std::memory_order_relaxed);
  merged.self_ticks += cell.self_ticks.load(std::memory_order_relaxed);
  const DurationHistogram* durations = cell.durations.load(std::memory_order_acquire);
  for (std::size_t i = 0; durations != nullptr && i < kDurationBuckets; ++i) {
    merged.durations[i] += durations->counts[i].load(std::memory_order_relaxed);
  }
}

// A histogram and its number of calls must agree, also where an op ended while they were read.
std::uint64_t calls_in(const MergedCell& cell) noexcept {
  return std::accumulate(cell.durations.begin(), cell.durations.end(), std::uint64_t{0});
}

}  // namespace

OpAggregator::OpAggregator(std::size_t max_names, bool with_durations)
    : shared_(create(max_names, with_durations)) {}

OpAggregator::~OpAggregator() {
  if (lost_in_fork() || !Registry::instance().release_counts(*shared_)) {
    // A thread may still write to it, or was when this process began.
    [[maybe_unused]] const SharedCounts* const leaked = shared_.release();
  }
}

void OpAggregator::start() {
  if (lost_in_fork()) {
    throw std::runtime_error("these counts belong to the parent process; create new ones");
  }
  if (!Registry::instance().start_counting(*shared_)) {
    throw std::runtime_error("ops are being counted already; stop that first");
  }
}

void OpAggregator::stop() noexcept {
  if (!lost_in_fork()) {
    Registry::instance().stop_counting(*shared_);
  }
}

void OpAggregator::set_weight(std::uint64_t weight) {
  if (weight > CountControl::kMaxWeight) {
    throw std::invalid_argument("an op counts for at most " + std::to_string(CountControl::kMaxWeight) +
                                ", not " + std::to_string(weight));
  }
  if (!lost_in_fork()) {
    shared_->set_weight(static_cast<std::uint32_t>(weight), ticks());
  }
}

std::uint64_t OpAggregator::TickSum::advance_to(std::uint64_t new_ticks, double ns_per_tick) noexcept {
  const double new_ns = (static_cast<double>(new_ticks - ticks) * ns_per_tick) + rest_ns;
  const double whole_ns = std::floor(new_ns);
  ticks = new_ticks;
  ns += static_cast<std::uint64_t>(whole_ns);
  rest_ns = new_ns - whole_ns;
  return ns;
}

OpCountColumns OpAggregator::collect() {
  OpCountColumns columns;
  if (lost_in_fork()) {
    return columns;
  }
  // One at a time: of two that read the same counters the later one must not report less.
  const std::lock_guard lock(collect_mutex_);
  const std::vector<const ThreadCounts*> threads = Registry::instance().counts_of(*shared_);
  const OpNames& names = shared_->names();
  const std::size_t cells = names.size() * kPhases;
  std::vector<MergedCell> merged(cells);
  for (const ThreadCounts* thread : threads) {
    thread->cells().for_each([&](std::size_t index, const CountCell& cell) noexcept {
      // A name added since waits for the next collection.
      if (index < cells) {
        merge(cell, merged[index]);
      }
    });
  }
  times_.resize(cells);
  const double rate = ns_per_tick();
  for (std::size_t index = 0; index < cells; ++index) {
    const MergedCell& cell = merged[index];
    const std::uint64_t calls = shared_->with_durations() ? calls_in(cell) : cell.calls;
    if (calls == 0) {
      continue;
    }
    const OpName& name = names[index / kPhases];
    columns.name.emplace_back(name.text());
    columns.is_user.push_back(name.is_user ? 1 : 0);
    columns.phase.push_back(phase_of_cell(static_cast<std::uint32_t>(index)));
    columns.calls.push_back(calls);
    columns.total_ns.push_back(times_[index].total.advance_to(cell.total_ticks, rate));
    columns.self_ns.push_back(times_[index].self.advance_to(cell.self_ticks, rate));
    if (shared_->with_durations()) {
      columns.duration_counts.insert(columns.duration_counts.end(), cell.durations.begin(),
                                     cell.durations.end());
    }
  }
  return columns;
}

std::uint64_t OpAggregator::counted() const {
  std::uint64_t counted = 0;
  if (!lost_in_fork()) {
    for (const ThreadCounts* thread : Registry::instance().counts_of(*shared_)) {
      counted += thread->counted();
    }
  }
  return counted;
}

CountDrops OpAggregator::drops() const {
  CountDrops drops{};
  if (!lost_in_fork()) {
    drops[static_cast<std::size_t>(CountDrop::kNoMemory)] = shared_->no_memory();
    for (const ThreadCounts* thread : Registry::instance().counts_of(*shared_)) {
      thread->add_drops(drops);
    }
  }
  return drops;
}

}  // namespace torchprof
