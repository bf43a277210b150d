// The allocations and frees that one thread made, in one recording.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/chunk_cursor.h"
#include "core/clock.h"
#include "core/drop_backoff.h"
#include "core/layout.h"
#include "torch/bridge_abi.h"

namespace torchprof {

class ThreadBuffer;

// Written by the owner's thread only.
class MemoryLog {
 public:
  explicit MemoryLog(ThreadBuffer& owner) noexcept : owner_(owner) {}
  MemoryLog(const MemoryLog&) = delete;
  MemoryLog& operator=(const MemoryLog&) = delete;

  // Records what happens now, or counts it as dropped. Owner bound to a recording.
  void record(const torchprof_memory_event& event) noexcept {
    std::byte* room = allocations_.reserve_fast(sizeof(AllocationRecord));
    if (room == nullptr) [[unlikely]] {
      room = reserve();
      if (room == nullptr) {
        return;
      }
    }
    auto* record = reinterpret_cast<AllocationRecord*>(room);
    record->time_ticks = ticks();
    record->address = event.address;
    record->size_bytes = event.size_bytes;
    record->device = event.device;
    record->device_type = event.device_type;
    record->action = event.action;
    record->reserved = 0;
    allocations_.commit_record(sizeof(AllocationRecord));
  }

  // The recording, or the thread, ends: gives unused memory back.
  void close() noexcept;

  void add_pending_drops(DropCounts& counts) const noexcept { dropped_.add_pending(counts); }

 private:
  [[nodiscard]] std::byte* reserve() noexcept;

  ThreadBuffer& owner_;
  ChunkCursor allocations_{ChunkKind::kAllocations, sizeof(AllocationRecord)};
  DropBackoff dropped_;
};

}  // namespace torchprof
