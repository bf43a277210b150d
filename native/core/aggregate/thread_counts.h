// One thread's counts. Written by its thread only; whoever collects reads the numbers meanwhile. When the
// thread ends they stay, and the next thread goes on with them.
//
// Memory a thread: about 45 KB, and 4 KiB for each page of 32 names it has met; with all of 10,000 names
// 1.3 MB. Histograms take 208 bytes for each name and phase that the thread has met.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/aggregate/count_cells.h"
#include "core/aggregate/count_drop.h"
#include "core/aggregate/op_names.h"
#include "core/aggregate/open_ops.h"
#include "core/aggregate/shared_counts.h"
#include "torch/bridge_abi.h"

namespace torchprof {

class alignas(64) ThreadCounts {
 public:
  // Throws std::bad_alloc.
  explicit ThreadCounts(SharedCounts& shared);

  [[nodiscard]] SharedCounts& shared() const noexcept { return *shared_; }
  [[nodiscard]] OpenOps& open_ops() noexcept { return open_; }
  [[nodiscard]] CountControl control() const noexcept {
    return CountControl::of(control_.load(std::memory_order_relaxed));
  }

  // Of the owner.

  // An op that begins now: its start time is the caller's to set. nullptr when it is not counted. Asks for
  // room first: `open_ops().has_room()`.
  OpenCountedOp* begin(const void* key, const char* name, std::uint8_t flags) noexcept {
    const CountControl control = shared_->control();
    if (control.weight() == 0) [[unlikely]] {
      return nullptr;
    }
    if (control != this->control()) [[unlikely]] {
      follow(control);
    }
    const OpName* op = find(name, (flags & TORCHPROF_COUNT_USER) != 0);
    if (op == nullptr) [[unlikely]] {
      return nullptr;
    }
    return &open_.push(key, cell_index(op->id, phase_of(*op, flags)), (flags & TORCHPROF_COUNT_ASYNC) != 0);
  }

  // An op that has ended; false when this thread did not begin it.
  bool end(const void* key, bool is_async, std::uint64_t end_ticks) noexcept {
    OpenCountedOp* op = open_.pop(key);
    if (op == nullptr) [[unlikely]] {
      op = open_.take(key);
      if (op == nullptr) {
        return false;
      }
    }
    const std::uint64_t start_ticks = op->start_ticks.load(std::memory_order_relaxed);
    const std::uint64_t duration = elapsed(start_ticks, end_ticks);
    const CountControl control = this->control();
    // Children that began after counting was switched are not known.
    const std::uint64_t seen = control == shared_->control()
                                   ? duration
                                   : elapsed(start_ticks, std::min(end_ticks, shared_->switched_ticks()));
    add(op->cell.load(std::memory_order_relaxed), control, duration, elapsed(op->children_ticks, seen));
    op->children_ticks = 0;
    if (!is_async) [[likely]] {
      open_.charge_encloser(*op, duration);
    }
    return true;
  }
  // An op that another thread began, and when it did.
  void end_of_other(const ClaimedOp& op, CountControl began_under, std::uint64_t end_ticks) noexcept;
  // An op whose start no thread knows.
  void end_of_unknown() noexcept;
  // More ops are open than can be. Under the registry's lock.
  void make_room() noexcept;

  // From any thread.

  [[nodiscard]] const CountCells& cells() const noexcept { return cells_; }
  // Ops that were counted, each once whatever its weight.
  [[nodiscard]] std::uint64_t counted() const noexcept { return counted_.load(std::memory_order_relaxed); }
  void add_drops(CountDrops& drops) const noexcept;

 private:
  static constexpr unsigned kPointerBits = 10;

  // Clocks of two processors may differ by a few ticks.
  static std::uint64_t elapsed(std::uint64_t from, std::uint64_t to) noexcept {
    if (to < from) [[unlikely]] {
      return 0;
    }
    return to - from;
  }

  // By the pointer first, checked against the text, as names are often temporaries.
  const OpName* find(const char* name, bool is_user) noexcept {
    constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;
    const std::size_t i = (reinterpret_cast<std::uintptr_t>(name) * kOdd) >> (64U - kPointerBits);
    const OpName* known = by_pointer_[i];
    if (known != nullptr && known->is(name, is_user)) [[likely]] {
      return known;
    }
    return find_by_text(name, is_user, by_pointer_[i]);
  }
  const OpName* find_by_text(const char* name, bool is_user, const OpName*& known) noexcept;

  [[nodiscard]] Phase phase_of(const OpName& op, std::uint8_t flags) noexcept {
    if ((flags & TORCHPROF_COUNT_BACKWARD) != 0) {
      return Phase::kBackward;
    }
    if (op.begins != Phase::kOther) {
      return op.begins;
    }
    if (const Phase enclosing = open_.enclosing_phase(); enclosing != Phase::kOther) {
      return enclosing;
    }
    return (flags & TORCHPROF_COUNT_SEQUENCED) != 0 || shared_->is_inference() ? Phase::kForward
                                                                               : Phase::kOther;
  }

  void add(std::uint32_t cell_index, CountControl control, std::uint64_t duration,
           std::uint64_t self) noexcept {
    CountCell& cell = cells_[cell_index];
    const std::uint64_t weight = control.weight();
    add_to(cell.calls, weight);
    add_to(cell.total_ticks, weight * duration);
    add_to(cell.self_ticks, weight * self);
    if (control.with_durations()) [[unlikely]] {
      add_duration(cell, duration, weight);
    }
    add_to(counted_, 1);
  }
  void add_duration(CountCell& cell, std::uint64_t duration, std::uint64_t weight) noexcept;
  void follow(CountControl control) noexcept;
  void count_drops(CountDrop reason, std::uint64_t count) noexcept {
    add_to(drops_[static_cast<std::size_t>(reason)], count);
  }

  // What every op needs comes first.
  SharedCounts* shared_;
  std::atomic<std::uint64_t> control_{0};  // that the open ops began under
  std::atomic<std::uint64_t> counted_{0};
  CountCells cells_;
  OpenOps open_;
  std::array<const OpName*, std::size_t{1} << kPointerBits> by_pointer_{};

  std::array<std::atomic<std::uint64_t>, kCountDrops> drops_{};
  // Open ops that were given up: so many ends will find nothing.
  std::uint64_t forgotten_ = 0;
};

}  // namespace torchprof
