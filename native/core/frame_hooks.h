// What the hook of Python calls needs of the core: the log of the calling thread, and the logs of threads
// that it cannot be called on.
#pragma once

#include <cstdint>
#include <span>

#include "core/active_recording.h"
#include "core/frame_log.h"
#include "core/registry.h"
#include "core/thread_state.h"

namespace torchprof {

namespace frame_detail {
ThreadState* attach(std::uint32_t slot) noexcept;
FrameLog* bind(ThreadState& thread, std::uint32_t slot, ActiveRecording& recording) noexcept;
}  // namespace frame_detail

// The state of the calling thread, made for `slot` if need be; nullptr when it has none.
inline ThreadState* thread_of_frames(std::uint32_t slot) noexcept {
  ThreadState* thread = current_thread;
  return thread != nullptr ? thread : frame_detail::attach(slot);
}

// The calling thread's log of a slot; nullptr when that does not record. Inside a HookScope only.
inline FrameLog* frame_log_of(ThreadState& thread, std::uint32_t slot) noexcept {
  ActiveRecording* recording = slots[slot].recording.load(std::memory_order_seq_cst);
  if (recording == nullptr) [[unlikely]] {
    return nullptr;
  }
  ThreadBuffer* buffer = thread.buffers[slot].load(std::memory_order_relaxed);
  if (buffer == nullptr || buffer->recording() != recording) [[unlikely]] {
    return frame_detail::bind(thread, slot, *recording);
  }
  return &buffer->frames();
}

// Those below are for other threads, and while none of them can enter or leave a frame: under the GIL.

// Frames that a thread has been in all the time.
void record_standing_frames(std::uint32_t slot, ActiveRecording& recording, std::uint32_t os_thread_id,
                            std::span<const StandingFrame> frames, std::uint64_t start_ticks) noexcept;
// A thread is not watched any more.
void lose_frames(std::uint32_t slot, std::uint32_t os_thread_id) noexcept;

}  // namespace torchprof
