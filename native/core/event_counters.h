// What one thread counts over its own events: read by the thread itself when an event begins and ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/active_recording.h"
#include "core/chunk_cursor.h"
#include "core/counter_records.h"
#include "core/counter_source.h"

namespace torchprof {

// Events deeper than this are not counted.
inline constexpr std::size_t kMaxCountedEvents = 1024;

class EventCounters {
 public:
  EventCounters(ActiveRecording& recording, CounterRecords& records, ThreadCounters& counters,
                std::uint32_t ordinal) noexcept
      : recording_(recording), records_(records), counters_(counters), ordinal_(ordinal) {
    cursor_.set_thread(ordinal);
  }

  // Before an event begins, so that the reading takes none of its time; `opened` says which it was. False
  // when it cannot be counted.
  [[nodiscard]] bool read_start() noexcept;
  void opened(const OpRecord& event) noexcept;
  // Of any event that has ended on this thread. An event that ended on another counts for nothing: it was
  // not this thread's alone.
  void ended(const OpRecord& event) noexcept;

  // The thread holds on to this from `hold` to `leave`, after which no event follows.
  void hold() noexcept { is_held_.store(true, std::memory_order_relaxed); }
  void leave() noexcept {
    cursor_.close(recording_.arena());
    open_.clear();
    is_held_.store(false, std::memory_order_release);
  }
  [[nodiscard]] bool is_held() const noexcept { return is_held_.load(std::memory_order_acquire); }

 private:
  struct Open {
    const OpRecord* event;  // nullptr: ended before one inside it did
    CounterReading start;
  };
  void forget_ended() noexcept;

  ActiveRecording& recording_;
  CounterRecords& records_;
  ThreadCounters& counters_;
  std::uint32_t ordinal_;
  ChunkCursor cursor_{ChunkKind::kCounters, sizeof(CounterRecord)};
  CounterReading start_;
  std::vector<Open> open_;  // innermost last
  std::atomic<bool> is_held_{false};
};

}  // namespace torchprof
