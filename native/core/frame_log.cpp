#include "core/frame_log.h"

#include <algorithm>
#include <new>

#include "core/thread_buffer.h"

namespace torchprof {

bool FrameLog::make_room() noexcept {
  const std::size_t count = depth();
  const std::size_t room = open_ == nullptr ? kFirstOpenFrames : std::min(2 * count, kMaxOpenFrames);
  std::unique_ptr<OpenFrame[]> larger;
  if (room > count) {
    larger.reset(new (std::nothrow) OpenFrame[room + 1]);
  }
  if (larger == nullptr) {
    ++too_deep_;
    dropped_.drop(*recording_, DropReason::kStackTooDeep);
    return false;
  }
  std::copy(bottom_, top_ + 1, larger.get());
  open_ = std::move(larger);
  bottom_ = open_.get();
  top_ = bottom_ + count;
  last_ = bottom_ + room;
  return true;
}

std::byte* FrameLog::reserve() noexcept {
  return dropped_.reserve(*recording_, [&](DropReason& failure) noexcept -> std::byte* {
    if (!owner_.ensure_thread_record(0, failure)) {
      return nullptr;
    }
    frames_.set_thread(owner_.ordinal());
    std::byte* room = frames_.reserve(recording_->arena(), sizeof(FrameRecord));
    failure = frames_.failure();
    return room;
  });
}

void FrameLog::leave_other(const void* key, std::uint64_t now_ticks) noexcept {
  if (too_deep_ != 0) {
    --too_deep_;
    return;
  }
  for (const OpenFrame* frame = top_; frame != bottom_; --frame) {
    if (frame->key == key) {
      // The returns of those above it were lost.
      end_above(static_cast<std::size_t>(frame - bottom_), now_ticks);
      top_->record->end_ticks.store(now_ticks, std::memory_order_release);
      --top_;
      return;
    }
  }
  // A C function that returns may have been called before its thread was watched; a Python frame would have
  // been found on the stack then.
  if (!is_c_call_key(key)) {
    dropped_.drop(*recording_, DropReason::kUnmatchedEnd);
  }
}

void FrameLog::end_above(std::size_t kept, std::uint64_t end_ticks) noexcept {
  for (OpenFrame* const outermost = bottom_ + kept; top_ != outermost; --top_) {
    FrameRecord& record = *top_->record;
    record.flags.fetch_or(kFlagUnfinished, std::memory_order_relaxed);
    record.end_ticks.store(std::max(end_ticks, record.start_ticks), std::memory_order_release);
  }
}

void FrameLog::align(std::span<const StandingFrame> frames, std::uint64_t start_ticks) noexcept {
  std::size_t kept = 0;
  std::size_t known = 0;
  for (std::size_t i = 1; i <= depth() && known < frames.size(); ++i) {
    if (is_c_call_key(bottom_[i].key)) {
      continue;
    }
    if (bottom_[i].key != frames[known].key) {
      break;
    }
    ++known;
    kept = i;
  }
  end_above(kept, last_ticks_);
  too_deep_ = 0;
  last_ticks_ = std::max(last_ticks_, start_ticks);
  for (const StandingFrame& frame : frames.subspan(known)) {
    if (frame.is_hidden) {
      enter_hidden(frame.key);
    } else {
      enter_standing(frame, start_ticks);
    }
  }
}

void FrameLog::enter_standing(const StandingFrame& frame, std::uint64_t start_ticks) noexcept {
  if (top_ == last_ && !make_room()) {
    return;
  }
  std::byte* room = frames_.reserve_fast(sizeof(FrameRecord));
  if (room == nullptr) {
    room = reserve();
  }
  if (room == nullptr) {
    push(frame.key, &discard_);
    return;
  }
  FrameRecord* record = write(room, frame.name, EventKind::kPython, kFlagEnteredBefore);
  record->start_ticks = start_ticks;
  frames_.commit_record(sizeof(FrameRecord));
  push(frame.key, record);
}

void FrameLog::close(std::uint64_t now_ticks) noexcept {
  end_above(0, now_ticks);
  frames_.close(recording_->arena());
  dropped_.close(*recording_);
  too_deep_ = 0;
  last_ticks_ = 0;
}

}  // namespace torchprof
