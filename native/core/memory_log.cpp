#include "core/memory_log.h"

#include "core/thread_buffer.h"

namespace torchprof {

std::byte* MemoryLog::reserve() noexcept {
  ActiveRecording& recording = *owner_.recording();
  if (retry_in_events_ != 0) {
    --retry_in_events_;
    recording.count_drops(last_failure_);
    return nullptr;
  }
  std::byte* room = nullptr;
  last_failure_ = DropReason::kByteCap;
  if (owner_.ensure_thread_record(0)) {
    allocations_.set_thread(owner_.ordinal());
    room = allocations_.reserve(recording.arena(), sizeof(AllocationRecord));
    last_failure_ = allocations_.failure();
  }
  if (room == nullptr) {
    retry_in_events_ = kRetryEvents;
    recording.count_drops(last_failure_);
  }
  return room;
}

void MemoryLog::close(Arena& arena) noexcept {
  allocations_.close(arena);
  retry_in_events_ = 0;
}

}  // namespace torchprof
