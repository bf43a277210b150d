// The operators that a thread has begun and that are to be counted when they end, innermost on top.
//
// As in OpenStack only the owner pushes and pops; another thread that ends one of them claims it in place, by
// swapping its key for a tombstone. Claims and `make_room` run under the registry's lock. Below the top no
// key is null, above it all are. Unlike there an entry knows what encloses it, which is what its time is
// taken from: the innermost synchronous operator still open. What ends elsewhere hands that role, and the
// time of its children, down to what encloses it in turn.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/aggregate/phase.h"

namespace torchprof {

inline constexpr std::size_t kMaxOpenCountedOps = 1024;

struct OpenCountedOp {
  std::atomic<const void*> key{nullptr};
  std::atomic<std::uint64_t> start_ticks{0};
  std::uint64_t children_ticks = 0;  // of synchronous children that have ended
  std::uint32_t encloser = 0;        // index; 0 = nothing
  std::atomic<std::uint32_t> cell{0};
};

// What another thread needs of an operator that it ends.
struct ClaimedOp {
  std::uint64_t start_ticks;
  std::uint32_t cell;
};

class OpenOps {
 public:
  OpenOps() noexcept { ops_[0].key.store(&bottom_mark, std::memory_order_relaxed); }

  // Whether `push` may be called. When not: `make_room`, then ask again.
  bool has_room() noexcept {
    if (is_tombstone(ops_[top_])) [[unlikely]] {
      pop_tombstones();
    }
    return top_ < kMaxOpenCountedOps;
  }

  // The phase of what encloses an op that begins now; kOther when nothing does.
  [[nodiscard]] Phase enclosing_phase() noexcept;

  // The start time is the caller's to set, as late as possible.
  OpenCountedOp& push(const void* key, std::uint32_t cell, bool is_async) noexcept {
    OpenCountedOp& op = ops_[++top_];
    op.children_ticks = 0;
    op.cell.store(cell, std::memory_order_relaxed);
    // Known so early of works of c10d, which may stay open for long: nothing that follows is part of them.
    if (is_async) [[unlikely]] {
      op.encloser = 0;
    } else {
      op.encloser = enclosing_;
      enclosing_ = top_;
    }
    op.key.store(key, std::memory_order_release);
    return op;
  }

  // The innermost op, taken off, when that is `key`, else nullptr: see `take`. Valid until the next push.
  OpenCountedOp* pop(const void* key) noexcept {
    OpenCountedOp& op = ops_[top_];
    if (op.key.load(std::memory_order_relaxed) != key) [[unlikely]] {
      return nullptr;
    }
    op.key.store(nullptr, std::memory_order_relaxed);
    if (enclosing_ == top_) [[likely]] {
      enclosing_ = op.encloser;
    }
    --top_;
    return &op;
  }

  // Ends an op that need not be the innermost; nullptr when it is not here.
  OpenCountedOp* take(const void* key) noexcept;
  // Takes the time of an op that `pop` or `take` returned out of what encloses it.
  void charge_encloser(const OpenCountedOp& op, std::uint64_t duration_ticks) noexcept {
    ops_[open_or_below(op.encloser)].children_ticks += duration_ticks;
  }

  // Empties the stack; returns how many ops were still open.
  std::size_t forget() noexcept;

  // Ends an op of the owner for another thread. Under the lock.
  std::optional<ClaimedOp> claim(const void* key) noexcept;
  // Room for more: closes the gaps that tombstones left. When there are too few the ops that are open are
  // given up, as most of them will never end; returns how many those were. Owner only, under the lock.
  std::size_t make_room() noexcept;
  // Calls `visit(key, op)` for each open op, then forgets them. While the owner is not in it.
  template <typename Visit>
  void drain(Visit visit) noexcept {
    for (std::uint32_t i = 1; i <= top_; ++i) {
      if (!is_tombstone(ops_[i])) {
        visit(ops_[i].key.load(std::memory_order_relaxed), ops_[i]);
      }
    }
    forget();
  }

 private:
  static bool is_tombstone(const OpenCountedOp& op) noexcept {
    // Acquire: the place is written again only after the claim that left the tombstone has read it.
    return op.key.load(std::memory_order_acquire) == &tombstone_mark;
  }
  [[nodiscard]] std::uint32_t open_or_below(std::uint32_t index) const noexcept {
    while (is_tombstone(ops_[index])) [[unlikely]] {
      index = ops_[index].encloser;
    }
    return index;
  }
  void hand_down(OpenCountedOp& tombstone) noexcept;
  void pop_tombstones() noexcept;
  void compact() noexcept;

  static const char tombstone_mark;
  static const char bottom_mark;

  std::uint32_t top_ = 0;
  std::uint32_t enclosing_ = 0;
  // ops_[0] has a key that matches nothing, and takes what nothing encloses.
  std::array<OpenCountedOp, kMaxOpenCountedOps + 1> ops_;
};

inline Phase OpenOps::enclosing_phase() noexcept {
  enclosing_ = open_or_below(enclosing_);
  return static_cast<Phase>(ops_[enclosing_].cell.load(std::memory_order_relaxed) % kPhases);
}

}  // namespace torchprof
