#include "core/aggregate/count_hooks.h"

#include "core/aggregate/thread_counts.h"
#include "core/clock.h"
#include "core/registry.h"

namespace torchprof {
namespace {

#define TORCHPROF_COLD __attribute__((noinline, cold))

// The calling thread's state; nullptr when it has none and gets none.
TORCHPROF_COLD ThreadState* attach() noexcept {
  // A thread met for the first time where nothing is counted needs no state.
  if (counting.load(std::memory_order_relaxed) == nullptr) {
    return nullptr;
  }
  ThreadState* thread = Registry::instance().attach_current_thread();
  if (thread == nullptr) {
    Registry::instance().count_stateless();
  }
  return thread;
}

TORCHPROF_COLD void count_not_entered(const ThreadState& thread) noexcept {
  if (&thread == &ended_thread) {
    Registry::instance().count_stateless();
  }
}

TORCHPROF_COLD ThreadCounts* bind(ThreadState& thread, SharedCounts& shared) noexcept {
  return Registry::instance().bind_counts(thread, shared);
}

ThreadCounts* counts_of(ThreadState& thread, SharedCounts& shared) noexcept {
  ThreadCounts* counts = thread.counts.load(std::memory_order_relaxed);
  if (counts == nullptr || &counts->shared() != &shared) [[unlikely]] {
    return bind(thread, shared);
  }
  return counts;
}

TORCHPROF_COLD void make_room(ThreadCounts& counts) noexcept {
  Registry::instance().make_room_to_count(counts);
}

TORCHPROF_COLD void end_elsewhere(ThreadCounts& counts, const void* key, std::uint64_t end_ticks) noexcept {
  Registry::instance().end_counted_elsewhere(counts, key, end_ticks);
}

// What both hooks do first: `count(counts)` with the thread's counts, when there are any.
template <typename Count, typename Refuse>
__attribute__((always_inline)) inline void hook(Count count, Refuse refuse) noexcept {
  ThreadState* thread = current_thread;
  if (thread == nullptr) [[unlikely]] {
    thread = attach();
    if (thread == nullptr) {
      return;
    }
  }
  const HookScope scope(*thread);
  if (!scope.entered()) [[unlikely]] {
    refuse(*thread);
    return;
  }
  SharedCounts* shared = counting.load(std::memory_order_seq_cst);
  if (shared == nullptr) [[unlikely]] {
    return;
  }
  ThreadCounts* counts = counts_of(*thread, *shared);
  if (counts != nullptr) [[likely]] {
    count(*counts);
  }
}

}  // namespace

void count_start(const void* key, const char* name, std::uint8_t flags) noexcept {
  hook(
      [=](ThreadCounts& counts) noexcept {
        if (!counts.open_ops().has_room()) [[unlikely]] {
          make_room(counts);
        }
        if (OpenCountedOp* op = counts.begin(key, name, flags); op != nullptr) [[likely]] {
          op->start_ticks.store(ticks(), std::memory_order_relaxed);
        }
      },
      [](const ThreadState& thread) noexcept { count_not_entered(thread); });
}

void count_end(const void* key, std::uint8_t is_async) noexcept {
  hook(
      [=](ThreadCounts& counts) noexcept {
        const std::uint64_t end_ticks = ticks();
        if (!counts.end(key, is_async != 0, end_ticks)) [[unlikely]] {
          end_elsewhere(counts, key, end_ticks);
        }
      },
      [](const ThreadState&) noexcept {});
}

}  // namespace torchprof
