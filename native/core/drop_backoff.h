// What a thread's log does when the recording has no room: it drops, counts by reason, and tries again later.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/active_recording.h"

namespace torchprof {

// Used by the log's thread only, but for `add_pending`.
class DropBackoff {
 public:
  // What `reserve(failure)` gives: room, or nullptr with the reason in `failure`. While the last failure is
  // recent it is not called: the record is dropped for the same reason.
  template <typename Reserve>
  [[nodiscard]] std::byte* reserve(ActiveRecording& recording, Reserve reserve) noexcept {
    if (retry_in_ != 0) {
      --retry_in_;
      drop(recording, failure_);
      return nullptr;
    }
    std::byte* room = reserve(failure_);
    if (room == nullptr) {
      retry_in_ = interval_;
      interval_ = std::min(2 * interval_, kMaxInterval);
      drop(recording, failure_);
      return nullptr;
    }
    interval_ = kFirstInterval;
    return room;
  }

  // Collected here first: many threads that all drop must not fight over one counter in the header.
  void drop(ActiveRecording& recording, DropReason reason) noexcept {
    if (reason_.load(std::memory_order_relaxed) != static_cast<std::uint32_t>(reason)) {
      flush(recording);
      reason_.store(static_cast<std::uint32_t>(reason), std::memory_order_relaxed);
    }
    const std::uint32_t pending = pending_.load(std::memory_order_relaxed) + 1;
    pending_.store(pending, std::memory_order_relaxed);
    if (pending == kFlushDrops) {
      flush(recording);
    }
  }

  // Puts what was dropped into the header of the recording, which ends for this log.
  void close(ActiveRecording& recording) noexcept {
    flush(recording);
    retry_in_ = 0;
    interval_ = kFirstInterval;
  }

  // Adds the drops not yet in the header of the recording. On any thread.
  void add_pending(DropCounts& counts) const noexcept {
    counts[reason_.load(std::memory_order_relaxed)] += pending_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint32_t kFirstInterval = 1024;  // records dropped before the next try
  static constexpr std::uint32_t kMaxInterval = 1U << 20U;
  static constexpr std::uint32_t kFlushDrops = 256;

  void flush(ActiveRecording& recording) noexcept {
    const std::uint32_t pending = pending_.load(std::memory_order_relaxed);
    if (pending != 0) {
      pending_.store(0, std::memory_order_relaxed);
      recording.count_drops(static_cast<DropReason>(reason_.load(std::memory_order_relaxed)), pending);
    }
  }

  std::uint32_t retry_in_ = 0;
  std::uint32_t interval_ = kFirstInterval;
  DropReason failure_ = DropReason::kByteCap;
  std::atomic<std::uint32_t> pending_{0};
  std::atomic<std::uint32_t> reason_{0};
};

}  // namespace torchprof
