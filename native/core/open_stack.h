// The operators a thread has begun and not ended, innermost on top.
//
// Only the owner pushes and pops. Another thread that ends one of them claims it in place: it swaps the key
// for a tombstone, which the owner removes when it meets it. Claims and `compact` run under one lock (the
// registry's); the owner's pushes and pops take none. Below the top no key is null, above it all are: that
// is where a claiming scan stops.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>

#include "core/layout.h"

namespace torchprof {

inline constexpr std::size_t kMaxOpenOps = 65'536;

class OpenStack {
 public:
  OpenStack() noexcept;
  ~OpenStack();
  OpenStack(const OpenStack&) = delete;
  OpenStack& operator=(const OpenStack&) = delete;

  // Whether `push` may be called. When not: `make_room`, then ask again.
  bool has_room() noexcept {
    // Acquire: the place is written again only after the claim that left the tombstone has read it.
    if (top_->key.load(std::memory_order_acquire) == tombstone()) [[unlikely]] {
      pop_tombstones();
    }
    return top_ != last_ || enter_next_segment();
  }

  void push(const void* key, OpRecord* record) noexcept {
    OpenOp* op = top_ + 1;
    op->record = record;
    op->key.store(key, std::memory_order_release);
    top_ = op;
  }

  // The record of the innermost op when that is `key`, else nullptr: see `take`.
  OpRecord* pop(const void* key) noexcept {
    OpenOp* op = top_;
    if (op->key.load(std::memory_order_relaxed) != key) [[unlikely]] {
      return nullptr;
    }
    OpRecord* record = op->record;
    op->key.store(nullptr, std::memory_order_relaxed);
    top_ = op - 1;
    return record;
  }

  // Ends an op of the owner that need not be the innermost; nullptr when it is not here.
  OpRecord* take(const void* key) noexcept;
  // The record of an op of the owner that goes on, whether innermost or not; nullptr when it is not here.
  [[nodiscard]] OpRecord* find(const void* key) noexcept;
  // Ends an op of the owner for another thread. Under the lock.
  OpRecord* claim(const void* key) noexcept;

  // Room for one more: removes tombstones, or adds a segment. False at kMaxOpenOps or without memory.
  // Owner only, under the lock.
  bool make_room() noexcept;

  // Calls `visit(key, record)` for each op still open and empties the stack. While the owner is not in it.
  template <typename Visit>
  void drain(Visit visit) noexcept {
    for (Segment* segment = &first_; segment != nullptr;
         segment = segment->next.load(std::memory_order_relaxed)) {
      for (std::size_t i = 1; i <= kSegmentOps; ++i) {
        OpenOp& op = segment->ops[i];
        const void* key = op.key.load(std::memory_order_relaxed);
        if (key == nullptr) {
          break;
        }
        if (key != tombstone()) {
          visit(key, *op.record);
        }
      }
    }
    clear();
  }

 private:
  struct OpenOp {
    std::atomic<const void*> key{nullptr};
    OpRecord* record = nullptr;
  };
  static constexpr std::size_t kSegmentOps = 256;
  // ops[0] holds a key that matches nothing, so that a pop never steps below a segment unseen.
  struct Segment {
    std::array<OpenOp, kSegmentOps + 1> ops;
    Segment* previous = nullptr;
    std::atomic<Segment*> next{nullptr};
  };
  static constexpr std::size_t kMaxSegments = kMaxOpenOps / kSegmentOps;

  static const void* tombstone() noexcept { return &tombstone_mark; }
  static const void* segment_start() noexcept { return &segment_start_mark; }

  OpenOp* place_of(const void* key) noexcept;
  bool enter_next_segment() noexcept;
  void leave_empty_segments() noexcept;
  void pop_tombstones() noexcept;
  void set_top(Segment* segment, OpenOp* top) noexcept;
  std::size_t compact() noexcept;
  void clear() noexcept;

  static const char tombstone_mark;
  static const char segment_start_mark;

  OpenOp* top_;
  OpenOp* last_;  // of the current segment
  Segment* segment_;
  std::size_t segment_count_ = 1;
  Segment first_;
};

}  // namespace torchprof
