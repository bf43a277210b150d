// Which threads count, and what happens when counting stops, a thread ends an op of another, or there is no
// memory. As in registry.cpp everything takes the one lock; hooks come here only when something is new to
// them.
#include <algorithm>

#include "core/aggregate/thread_counts.h"
#include "core/registry.h"

namespace torchprof {

bool Registry::start_counting(SharedCounts& shared) noexcept {
  const std::lock_guard lock(mutex_);
  SharedCounts* none = nullptr;
  return counting.compare_exchange_strong(none, &shared) || none == &shared;
}

void Registry::stop_counting(SharedCounts& shared) noexcept {
  const std::lock_guard lock(mutex_);
  SharedCounts* current = &shared;
  counting.compare_exchange_strong(current, nullptr);
}

bool Registry::release_counts(SharedCounts& shared) noexcept {
  stop_counting(shared);
  barrier_on_all_threads();
  const bool quiet = wait_until_outside(kCountingUser);
  const std::lock_guard lock(mutex_);
  for (ThreadState* thread : threads_) {
    ThreadCounts* counts = thread->counts.load(std::memory_order_relaxed);
    if (counts != nullptr && &counts->shared() == &shared) {
      thread->counts.store(nullptr, std::memory_order_relaxed);
    }
  }
  return quiet;
}

ThreadCounts* Registry::bind_counts(ThreadState& thread, SharedCounts& shared) noexcept {
  const std::lock_guard lock(mutex_);
  if (counting.load(std::memory_order_relaxed) != &shared) {
    return nullptr;
  }
  if (ThreadCounts* earlier = thread.counts.exchange(nullptr, std::memory_order_relaxed);
      earlier != nullptr) {
    earlier->shared().leave(*earlier);
  }
  ThreadCounts* counts = shared.join();
  if (counts == nullptr) {
    shared.count_no_memory();
  }
  thread.counts.store(counts, std::memory_order_relaxed);
  return counts;
}

void Registry::make_room_to_count(ThreadCounts& counts) noexcept {
  const std::lock_guard lock(mutex_);
  counts.make_room();
}

void Registry::end_counted_elsewhere(ThreadCounts& ender, const void* key, std::uint64_t end_ticks) noexcept {
  const std::lock_guard lock(mutex_);
  SharedCounts& shared = ender.shared();
  for (ThreadState* thread : threads_) {
    ThreadCounts* counts = thread->counts.load(std::memory_order_relaxed);
    if (counts == nullptr || counts == &ender || &counts->shared() != &shared) {
      continue;
    }
    const CountControl began_under = counts->control();
    if (const std::optional<ClaimedOp> claimed = counts->open_ops().claim(key); claimed.has_value()) {
      ender.end_of_other(*claimed, began_under, end_ticks);
      return;
    }
  }
  std::vector<OrphanedOp>& orphans = shared.orphans();
  const auto orphan = std::find_if(orphans.begin(), orphans.end(),
                                   [key](const OrphanedOp& op) noexcept { return op.key == key; });
  if (orphan != orphans.end()) {
    ender.end_of_other({.start_ticks = orphan->start_ticks, .cell = orphan->cell}, orphan->control,
                       end_ticks);
    *orphan = orphans.back();
    orphans.pop_back();
    return;
  }
  ender.end_of_unknown();
}

void Registry::count_stateless() noexcept {
  const std::lock_guard lock(mutex_);
  if (SharedCounts* shared = counting.load(std::memory_order_relaxed); shared != nullptr) {
    shared->count_no_memory();
  }
}

std::vector<const ThreadCounts*> Registry::counts_of(SharedCounts& shared) {
  const std::lock_guard lock(mutex_);
  std::vector<const ThreadCounts*> threads;
  threads.reserve(shared.threads().size());
  for (const auto& thread : shared.threads()) {
    threads.push_back(thread.get());
  }
  return threads;
}

}  // namespace torchprof
