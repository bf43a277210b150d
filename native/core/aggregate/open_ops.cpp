#include "core/aggregate/open_ops.h"

#include <utility>

namespace torchprof {

const char OpenOps::tombstone_mark = 't';
const char OpenOps::bottom_mark = 'b';

// What ran inside an op that ended elsewhere ran inside what encloses it.
void OpenOps::hand_down(OpenCountedOp& tombstone) noexcept {
  ops_[open_or_below(tombstone.encloser)].children_ticks += std::exchange(tombstone.children_ticks, 0);
}

void OpenOps::pop_tombstones() noexcept {
  while (is_tombstone(ops_[top_])) {
    hand_down(ops_[top_]);
    if (enclosing_ == top_) {
      enclosing_ = ops_[top_].encloser;
    }
    ops_[top_].key.store(nullptr, std::memory_order_relaxed);
    --top_;
  }
  enclosing_ = open_or_below(enclosing_);
}

OpenCountedOp* OpenOps::take(const void* key) noexcept {
  pop_tombstones();
  std::uint32_t found = top_;
  while (found > 0 && ops_[found].key.load(std::memory_order_relaxed) != key) {
    --found;
  }
  if (found == 0) {
    return nullptr;
  }
  for (std::uint32_t i = found + 1; i <= top_; ++i) {
    if (is_tombstone(ops_[i])) {
      hand_down(ops_[i]);
    }
  }
  OpenCountedOp& op = ops_[found];
  op.key.store(&tombstone_mark, std::memory_order_relaxed);
  return &op;
}

std::size_t OpenOps::forget() noexcept {
  std::size_t open = 0;
  // From the top down: a claim that runs meanwhile stops at the first null.
  for (; top_ > 0; --top_) {
    open += is_tombstone(ops_[top_]) ? 0 : 1;
    ops_[top_].key.store(nullptr, std::memory_order_relaxed);
  }
  enclosing_ = 0;
  return open;
}

std::optional<ClaimedOp> OpenOps::claim(const void* key) noexcept {
  for (std::size_t i = 1; i <= kMaxOpenCountedOps; ++i) {
    OpenCountedOp& op = ops_[i];
    const void* found = op.key.load(std::memory_order_acquire);
    if (found == nullptr) {
      break;
    }
    if (found == key) {
      // Read before the swap: the owner may reuse the place right after it.
      const ClaimedOp claimed{.start_ticks = op.start_ticks.load(std::memory_order_relaxed),
                              .cell = op.cell.load(std::memory_order_relaxed)};
      if (op.key.compare_exchange_strong(found, &tombstone_mark, std::memory_order_acq_rel)) {
        return claimed;
      }
      break;
    }
  }
  return std::nullopt;
}

void OpenOps::compact() noexcept {
  std::array<std::uint32_t, kMaxOpenCountedOps + 1> moved_to{};
  std::uint32_t to = 0;
  for (std::uint32_t i = 1; i <= top_; ++i) {
    OpenCountedOp& op = ops_[i];
    // Enclosers are further down: they have been moved.
    const std::uint32_t encloser = moved_to[op.encloser];
    if (is_tombstone(op)) {
      ops_[encloser].children_ticks += op.children_ticks;
      moved_to[i] = encloser;
      op.key.store(nullptr, std::memory_order_relaxed);
      continue;
    }
    moved_to[i] = ++to;
    op.encloser = encloser;
    if (to != i) {
      OpenCountedOp& target = ops_[to];
      target.start_ticks.store(op.start_ticks.load(std::memory_order_relaxed), std::memory_order_relaxed);
      target.children_ticks = op.children_ticks;
      target.encloser = encloser;
      target.cell.store(op.cell.load(std::memory_order_relaxed), std::memory_order_relaxed);
      target.key.store(op.key.load(std::memory_order_relaxed), std::memory_order_relaxed);
      op.key.store(nullptr, std::memory_order_relaxed);
    }
  }
  top_ = to;
  enclosing_ = moved_to[enclosing_];
}

std::size_t OpenOps::make_room() noexcept {
  // A few places only would bring the owner straight back here.
  constexpr std::size_t kWorthwhile = kMaxOpenCountedOps / 8;
  compact();
  return top_ + kWorthwhile > kMaxOpenCountedOps ? forget() : 0;
}

}  // namespace torchprof
