#include "core/aggregate/shared_counts.h"

#include <new>

#include "core/aggregate/thread_counts.h"

namespace torchprof {

constinit std::atomic<SharedCounts*> counting{nullptr};

SharedCounts::SharedCounts(std::size_t max_names, bool with_durations, double ns_per_tick)
    : with_durations_(with_durations), buckets_(ns_per_tick), names_(max_names) {}

SharedCounts::~SharedCounts() = default;

void SharedCounts::set_weight(std::uint32_t weight, std::uint64_t now_ticks) noexcept {
  if (control().weight() == weight) {
    return;
  }
  ++serial_;
  switched_ticks_.store(now_ticks, std::memory_order_relaxed);
  control_.store(weight == 0 ? 0 : CountControl(serial_, with_durations_, weight).word(),
                 std::memory_order_relaxed);
}

ThreadCounts* SharedCounts::join() noexcept {
  if (!idle_.empty()) {
    ThreadCounts* thread = idle_.back();
    idle_.pop_back();
    return thread;
  }
  try {
    threads_.push_back(std::make_unique<ThreadCounts>(*this));
    idle_.reserve(threads_.size());  // so that `leave` needs no memory
    return threads_.back().get();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void SharedCounts::leave(ThreadCounts& thread) noexcept {
  thread.open_ops().drain([&](const void* key, const OpenCountedOp& op) noexcept {
    if (orphans_.size() == kMaxOrphans) {
      return;
    }
    try {
      orphans_.push_back({.key = key,
                          .control = thread.control(),
                          .start_ticks = op.start_ticks.load(std::memory_order_relaxed),
                          .cell = op.cell.load(std::memory_order_relaxed)});
    } catch (const std::bad_alloc&) {
      return;  // its end will be unmatched
    }
  });
  idle_.push_back(&thread);
}

}  // namespace torchprof
