#include "core/open_stack.h"

#include <new>

namespace torchprof {

const char OpenStack::tombstone_mark = 't';
const char OpenStack::segment_start_mark = 's';

OpenStack::OpenStack() noexcept {
  first_.ops[0].key.store(segment_start(), std::memory_order_relaxed);
  set_top(&first_, first_.ops.data());
}

OpenStack::~OpenStack() { clear(); }

void OpenStack::set_top(Segment* segment, OpenOp* top) noexcept {
  segment_ = segment;
  top_ = top;
  last_ = &segment->ops.back();
}

bool OpenStack::enter_next_segment() noexcept {
  Segment* next = segment_->next.load(std::memory_order_relaxed);
  if (next == nullptr) {
    return false;
  }
  set_top(next, next->ops.data());
  return true;
}

void OpenStack::leave_empty_segments() noexcept {
  while (top_ == segment_->ops.data() && segment_->previous != nullptr) {
    Segment* previous = segment_->previous;
    set_top(previous, &previous->ops.back());
  }
}

void OpenStack::pop_tombstones() noexcept {
  leave_empty_segments();
  while (top_->key.load(std::memory_order_acquire) == tombstone()) {
    top_->key.store(nullptr, std::memory_order_relaxed);
    --top_;
    leave_empty_segments();
  }
}

OpenStack::OpenOp* OpenStack::place_of(const void* key) noexcept {
  pop_tombstones();
  OpenOp* op = top_;
  for (Segment* segment = segment_; segment != nullptr;) {
    for (; op != segment->ops.data(); --op) {
      if (op->key.load(std::memory_order_relaxed) == key) {
        return op;
      }
    }
    segment = segment->previous;
    op = segment == nullptr ? nullptr : &segment->ops.back();
  }
  return nullptr;
}

OpRecord* OpenStack::find(const void* key) noexcept {
  const OpenOp* op = place_of(key);
  return op != nullptr ? op->record : nullptr;
}

OpRecord* OpenStack::take(const void* key) noexcept {
  OpenOp* op = place_of(key);
  if (op == nullptr) {
    return nullptr;
  }
  OpRecord* record = op->record;
  op->key.store(tombstone(), std::memory_order_relaxed);
  pop_tombstones();
  return record;
}

OpRecord* OpenStack::claim(const void* key) noexcept {
  for (Segment* segment = &first_; segment != nullptr;
       segment = segment->next.load(std::memory_order_acquire)) {
    for (std::size_t i = 1; i <= kSegmentOps; ++i) {
      OpenOp& op = segment->ops[i];
      const void* found = op.key.load(std::memory_order_acquire);
      if (found == nullptr) {
        return nullptr;
      }
      if (found == key) {
        // Read before the swap: the owner may reuse the place right after it.
        OpRecord* record = op.record;
        return op.key.compare_exchange_strong(found, tombstone(), std::memory_order_acq_rel) ? record
                                                                                             : nullptr;
      }
    }
  }
  return nullptr;
}

// Moves the open ops down over the tombstones; returns how many of those there were.
std::size_t OpenStack::compact() noexcept {
  Segment* to_segment = &first_;
  std::size_t to = 1;
  std::size_t removed = 0;
  for (Segment* segment = &first_; segment != nullptr;
       segment = segment->next.load(std::memory_order_relaxed)) {
    for (std::size_t i = 1; i <= kSegmentOps; ++i) {
      OpenOp& op = segment->ops[i];
      const void* key = op.key.load(std::memory_order_relaxed);
      if (key == nullptr) {
        break;
      }
      if (key == tombstone()) {
        ++removed;
        op.key.store(nullptr, std::memory_order_relaxed);
        continue;
      }
      if (to > kSegmentOps) {
        to_segment = to_segment->next.load(std::memory_order_relaxed);
        to = 1;
      }
      OpenOp& target = to_segment->ops[to++];
      if (&target != &op) {
        target.record = op.record;
        target.key.store(key, std::memory_order_relaxed);
        op.key.store(nullptr, std::memory_order_relaxed);
      }
    }
  }
  set_top(to_segment, &to_segment->ops[to - 1]);
  return removed;
}

bool OpenStack::make_room() noexcept {
  // A few places only would bring the owner straight back here.
  constexpr std::size_t kWorthwhile = kSegmentOps / 8;
  const std::size_t removed = compact();
  if (removed >= kWorthwhile || segment_->next.load(std::memory_order_relaxed) != nullptr) {
    return true;
  }
  auto* segment = segment_count_ < kMaxSegments ? new (std::nothrow) Segment : nullptr;
  if (segment == nullptr) {
    return removed != 0;
  }
  segment->ops[0].key.store(segment_start(), std::memory_order_relaxed);
  segment->previous = segment_;
  segment_->next.store(segment, std::memory_order_release);
  ++segment_count_;
  return true;
}

void OpenStack::clear() noexcept {
  for (Segment* segment = first_.next.exchange(nullptr); segment != nullptr;) {
    Segment* next = segment->next.load(std::memory_order_relaxed);
    delete segment;
    segment = next;
  }
  segment_count_ = 1;
  for (std::size_t i = 1; i <= kSegmentOps; ++i) {
    first_.ops[i].key.store(nullptr, std::memory_order_relaxed);
  }
  set_top(&first_, first_.ops.data());
}

}  // namespace torchprof
