// The Python calls of one thread in one recording: those that ended, and those still open, innermost on top.
//
// Only the owner enters and leaves frames, and it holds the GIL while it does. A call and its return are
// matched by a key: the address of the frame object, which lives as long as the frame does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/active_recording.h"
#include "core/chunk_cursor.h"
#include "core/clock.h"
#include "core/drop_backoff.h"
#include "core/layout.h"

namespace torchprof {

class ThreadBuffer;

inline constexpr std::size_t kMaxOpenFrames = 65'536;

// The key of a call of a C function by the frame with this key. Frames are aligned: the lowest bit is free.
inline const void* c_call_key(const void* frame) noexcept { return static_cast<const char*>(frame) + 1; }
inline bool is_c_call_key(const void* key) noexcept {
  return (reinterpret_cast<std::uintptr_t>(key) & 1U) != 0;
}

// A frame found on the stack of a thread.
struct StandingFrame {
  const void* key;
  std::uint32_t name;  // string id
  bool is_hidden;
};

class FrameLog {
 public:
  explicit FrameLog(ThreadBuffer& owner) noexcept : owner_(owner) {}
  FrameLog(const FrameLog&) = delete;
  FrameLog& operator=(const FrameLog&) = delete;

  // Of the owner's buffer, which belongs to one.
  [[nodiscard]] ActiveRecording& recording() const noexcept { return *recording_; }
  void bind(ActiveRecording& recording) noexcept { recording_ = &recording; }

  void enter(const void* key, std::uint32_t name, EventKind kind) noexcept {
    if (top_ == last_ && !make_room()) [[unlikely]] {
      return;
    }
    std::byte* room = frames_.reserve_fast(sizeof(FrameRecord));
    if (room == nullptr) [[unlikely]] {
      room = reserve();
      if (room == nullptr) {
        push(key, &discard_);
        return;
      }
    }
    FrameRecord* record = write(room, name, kind, 0);
    last_ticks_ = record->start_ticks = ticks();
    frames_.commit_record(sizeof(FrameRecord));
    push(key, record);
  }

  // Enters a frame that nobody is to see.
  void enter_hidden(const void* key) noexcept {
    if (top_ != last_ || make_room()) [[likely]] {
      push(key, &hidden_);
    }
  }
  [[nodiscard]] bool innermost_is_hidden() const noexcept { return top_->record == &hidden_; }

  void leave(const void* key, std::uint64_t now_ticks) noexcept {
    last_ticks_ = now_ticks;
    if (top_->key != key) [[unlikely]] {
      leave_other(key, now_ticks);
      return;
    }
    top_->record->end_ticks.store(now_ticks, std::memory_order_release);
    --top_;
  }

  // What was seen of the thread is no longer all of it: its stack is now `frames`, outermost first. Frames
  // that are still on it go on, the others ended when the thread was last heard of, and new ones begin at
  // `start_ticks`, flagged kFlagEnteredBefore.
  void align(std::span<const StandingFrame> frames, std::uint64_t start_ticks) noexcept;

  // The thread is not watched any more: frames still open end, unfinished, when it was last heard of.
  void lose() noexcept { end_above(0, last_ticks_); }

  // The recording, or the thread, ends.
  void close(std::uint64_t now_ticks) noexcept;

  void add_pending_drops(DropCounts& counts) const noexcept { dropped_.add_pending(counts); }

 private:
  struct OpenFrame {
    const void* key;
    FrameRecord* record;
  };
  static constexpr std::size_t kFirstOpenFrames = 256;

  static FrameRecord* write(std::byte* room, std::uint32_t name, EventKind kind,
                            std::uint16_t flags) noexcept {
    auto* record = reinterpret_cast<FrameRecord*>(room);
    record->end_ticks.store(0, std::memory_order_relaxed);
    record->name = name;
    record->kind = static_cast<std::uint8_t>(kind);
    record->reserved = 0;
    record->flags.store(flags, std::memory_order_relaxed);
    return record;
  }
  void push(const void* key, FrameRecord* record) noexcept {
    ++top_;
    *top_ = {.key = key, .record = record};
  }
  [[nodiscard]] std::size_t depth() const noexcept { return static_cast<std::size_t>(top_ - bottom_); }

  [[nodiscard]] bool make_room() noexcept;
  [[nodiscard]] std::byte* reserve() noexcept;
  void leave_other(const void* key, std::uint64_t now_ticks) noexcept;
  // Ends all but the `kept` outermost, unfinished.
  void end_above(std::size_t kept, std::uint64_t end_ticks) noexcept;
  void enter_standing(const StandingFrame& frame, std::uint64_t start_ticks) noexcept;

  ThreadBuffer& owner_;
  ActiveRecording* recording_ = nullptr;
  ChunkCursor frames_{ChunkKind::kFrames, sizeof(FrameRecord)};

  // Below the outermost frame lies one that no key matches, so that no access needs to ask for emptiness.
  OpenFrame none_{.key = nullptr, .record = nullptr};
  OpenFrame* bottom_ = &none_;
  OpenFrame* top_ = &none_;
  OpenFrame* last_ = &none_;
  std::unique_ptr<OpenFrame[]> open_;
  std::uint64_t too_deep_ = 0;    // frames entered beyond the last place and not left yet
  std::uint64_t last_ticks_ = 0;  // when the thread was last heard of
  FrameRecord hidden_{};
  FrameRecord discard_{};

  DropBackoff dropped_;
};

}  // namespace torchprof
