#include "core/memory_log.h"

#include "core/thread_buffer.h"

namespace torchprof {

std::byte* MemoryLog::reserve() noexcept {
  ActiveRecording& recording = *owner_.recording();
  return dropped_.reserve(recording, [&](DropReason& failure) noexcept -> std::byte* {
    if (!owner_.ensure_thread_record(0, failure)) {
      return nullptr;
    }
    allocations_.set_thread(owner_.ordinal());
    std::byte* room = allocations_.reserve(recording.arena(), sizeof(AllocationRecord));
    failure = allocations_.failure();
    return room;
  });
}

void MemoryLog::close() noexcept {
  allocations_.close(owner_.recording()->arena());
  dropped_.close(*owner_.recording());
}

}  // namespace torchprof
