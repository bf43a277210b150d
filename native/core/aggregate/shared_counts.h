// What all threads that count share, and the threads that do.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/aggregate/duration_buckets.h"
#include "core/aggregate/op_names.h"
#include "core/process_identity.h"

namespace torchprof {

class ThreadCounts;

// Whether and how ops are counted, in one word that every op looks at. It differs whenever counting was
// switched: an op counts as it was when it began, and a thread keeps that once for all the ops it has open.
class CountControl {
 public:
  static constexpr std::uint32_t kMaxWeight = (std::uint32_t{1} << 31U) - 1;

  constexpr CountControl() noexcept = default;
  constexpr CountControl(std::uint32_t serial, bool with_durations, std::uint32_t weight) noexcept
      : word_((std::uint64_t{serial} << 32U) | (with_durations ? kDurationsBit : 0U) | weight) {}
  static constexpr CountControl of(std::uint64_t word) noexcept {
    CountControl control;
    control.word_ = word;
    return control;
  }

  [[nodiscard]] constexpr std::uint64_t word() const noexcept { return word_; }
  // How many ops each counted one stands for; 0 = none is counted.
  [[nodiscard]] constexpr std::uint64_t weight() const noexcept { return word_ & kMaxWeight; }
  [[nodiscard]] constexpr bool with_durations() const noexcept { return (word_ & kDurationsBit) != 0; }
  friend constexpr bool operator==(CountControl, CountControl) noexcept = default;

 private:
  static constexpr std::uint64_t kDurationsBit = std::uint64_t{1} << 31U;
  std::uint64_t word_ = 0;
};

// An op whose thread ended before it did.
struct OrphanedOp {
  const void* key;
  CountControl control;
  std::uint64_t start_ticks;
  std::uint32_t cell;
};

class alignas(64) SharedCounts {
 public:
  SharedCounts(std::size_t max_names, bool with_durations, double ns_per_tick);
  ~SharedCounts();

  [[nodiscard]] CountControl control() const noexcept {
    return CountControl::of(control_.load(std::memory_order_relaxed));
  }
  // Every op that begins from now on counts for `weight`; 0 counts none. One caller at a time.
  void set_weight(std::uint32_t weight, std::uint64_t now_ticks) noexcept;
  [[nodiscard]] std::uint64_t switched_ticks() const noexcept {
    return switched_ticks_.load(std::memory_order_relaxed);
  }
  // Whether ops without a phase of their own belong to a forward pass.
  [[nodiscard]] bool is_inference() const noexcept { return is_inference_.load(std::memory_order_relaxed); }
  void set_inference(bool is_inference) noexcept {
    is_inference_.store(is_inference, std::memory_order_relaxed);
  }

  [[nodiscard]] OpNames& names() noexcept { return names_; }
  [[nodiscard]] const DurationBuckets& buckets() const noexcept { return buckets_; }
  [[nodiscard]] bool with_durations() const noexcept { return with_durations_; }
  // Made in another process: some thread that does not exist here may have been in the middle of changing it.
  [[nodiscard]] bool lost_in_fork() const noexcept { return fork_generation_ != fork_generation(); }

  // Everything below is for the registry, under its lock.

  // The counts of a thread that begins to count: those of one that has ended, or new ones. nullptr without
  // memory.
  ThreadCounts* join() noexcept;
  // The thread has ended, or counts elsewhere now: its counts stay, the next thread adds to them.
  void leave(ThreadCounts& thread) noexcept;
  [[nodiscard]] const std::vector<std::unique_ptr<ThreadCounts>>& threads() const noexcept {
    return threads_;
  }
  [[nodiscard]] std::vector<OrphanedOp>& orphans() noexcept { return orphans_; }
  void count_no_memory() noexcept { no_memory_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t no_memory() const noexcept {
    return no_memory_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t kMaxOrphans = 4096;

  // What every op reads comes first.
  std::atomic<std::uint64_t> control_{0};
  std::atomic<bool> is_inference_{false};
  const bool with_durations_;
  const DurationBuckets buckets_;
  OpNames names_;

  std::atomic<std::uint64_t> switched_ticks_{0};
  std::uint32_t serial_ = 0;
  const std::uint64_t fork_generation_ = fork_generation();
  std::vector<std::unique_ptr<ThreadCounts>> threads_;
  std::vector<ThreadCounts*> idle_;
  std::vector<OrphanedOp> orphans_;
  std::atomic<std::uint64_t> no_memory_{0};
};

// Where ops are counted; nullptr while they are not.
extern constinit std::atomic<SharedCounts*> counting;

}  // namespace torchprof
