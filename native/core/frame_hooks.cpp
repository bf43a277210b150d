#include "core/frame_hooks.h"

#include "core/clock.h"

namespace torchprof {
namespace frame_detail {

ThreadState* attach(std::uint32_t slot) noexcept {
  return slots[slot].recording.load(std::memory_order_relaxed) == nullptr
             ? nullptr
             : Registry::instance().attach_current_thread(slot);
}

FrameLog* bind(ThreadState& thread, std::uint32_t slot, ActiveRecording& recording) noexcept {
  ThreadBuffer* buffer = Registry::instance().bind(thread, slot, recording);
  return buffer != nullptr ? &buffer->frames() : nullptr;
}

}  // namespace frame_detail

void record_standing_frames(std::uint32_t slot, ActiveRecording& recording, std::uint32_t os_thread_id,
                            std::span<const StandingFrame> frames, std::uint64_t start_ticks) noexcept {
  const std::uint32_t ordinal = Registry::instance().ordinal_of(slot, recording, os_thread_id);
  ChunkCursor cursor(ChunkKind::kFrames, sizeof(FrameRecord));
  cursor.set_thread(ordinal);
  const std::uint64_t end_ticks = ticks();
  for (const StandingFrame& frame : frames) {
    if (frame.is_hidden) {
      continue;
    }
    std::byte* room = ordinal != 0 ? cursor.reserve(recording.arena(), sizeof(FrameRecord)) : nullptr;
    if (room == nullptr) {
      recording.count_drops(cursor.failure());
      continue;
    }
    auto* record = reinterpret_cast<FrameRecord*>(room);
    record->start_ticks = start_ticks;
    record->end_ticks.store(end_ticks, std::memory_order_relaxed);
    record->name = frame.name;
    record->kind = static_cast<std::uint8_t>(EventKind::kPython);
    record->reserved = 0;
    record->flags.store(kFlagEnteredBefore | kFlagUnfinished, std::memory_order_relaxed);
    cursor.commit_record(sizeof(FrameRecord));
  }
  cursor.close(recording.arena());
}

void lose_frames(std::uint32_t slot, std::uint32_t os_thread_id) noexcept {
  Registry::instance().lose_frames(slot, os_thread_id);
}

}  // namespace torchprof
