// One thread's part of one recording. Written by its thread only; by others only under the registry's lock
// while the thread is provably outside (stop), or for a thread that has ended.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/active_recording.h"
#include "core/chunk_cursor.h"
#include "core/clock.h"
#include "core/device_op_ids.h"
#include "core/drop_backoff.h"
#include "core/event_counters.h"
#include "core/frame_log.h"
#include "core/memory_log.h"
#include "core/name_cache.h"
#include "core/open_stack.h"
#include "torch/bridge_abi.h"

namespace torchprof {

inline constexpr std::size_t kMaxInputsBytes = 64 * 1024;

// An event that begins and that torch knows nothing of. Pointers need to live only for the call.
struct EventStart {
  const void* key;       // identifies the event until its end
  const char* name;      // NUL-terminated
  const char* overload;  // NUL-terminated, "" when none
  EventKind kind;
  std::uint16_t flags;  // OpFlags
};

class alignas(64) ThreadBuffer {
 public:
  // The recording it belongs to; nullptr while it belongs to none.
  [[nodiscard]] ActiveRecording* recording() const noexcept { return recording_; }
  [[nodiscard]] OpenStack& open_ops() noexcept { return open_ops_; }
  [[nodiscard]] FrameLog& frames() noexcept { return frames_; }
  [[nodiscard]] MemoryLog& memory() noexcept { return memory_; }
  [[nodiscard]] std::uint32_t ordinal() const noexcept { return ordinal_; }

  void bind(ActiveRecording& recording, std::uint32_t os_thread_id, const char* thread_name) noexcept;
  // Gives unused memory back and belongs to no recording any more. Open ops must have been drained.
  void unbind() noexcept;

  // Notes on one of its open events that an exception of this type ends it.
  void fail_event(OpRecord& record, const char* error_type) noexcept {
    record.error = names_.find(error_type, "", recording_->strings()).id;
  }

  // A committed record of an op that begins now, or the discard record when it had to be dropped (counted).
  OpRecord* begin_op(const torchprof_op_start& op) noexcept {
    // An event of ours may have come first, which does not know what torch calls the thread.
    if (!torch_thread_known_) [[unlikely]] {
      DropReason failure{};
      torch_thread_known_ = ensure_thread_record(op.torch_thread, failure) && op.torch_thread != 0;
    }
    return begin(op, op.is_user != 0 ? EventKind::kUser : EventKind::kOp, 0);
  }
  // Likewise of any other event.
  OpRecord* begin_event(const EventStart& event) noexcept;
  [[nodiscard]] bool is_discard(const OpRecord* record) const noexcept { return record == &discard_; }

  // Where the thread's counters of this recording are: nullptr without any.
  [[nodiscard]] EventCounters* counters() const noexcept { return counters_; }
  // Opens them, if there are to be any: takes system calls the first time. Owner only, without the registry's
  // lock.
  void join_counters() noexcept;

  // Tells the device's collector of an op that this thread has just begun, until it ends.
  void push_to_device(DeviceCollector& collector, const OpRecord& op) noexcept;
  // Something is to be done at the end of an op but to record it.
  [[nodiscard]] bool has_to_tell_of_ends() const noexcept { return counters_ != nullptr || has_pushed_; }
  void tell_of_end(const OpRecord& op) noexcept;

  // Room for one more op on the full open stack. Owner only, under the registry's lock.
  [[nodiscard]] bool make_room_to_open() noexcept;
  // An op that begins while the open stack is full is dropped; its end must be told from an unmatched one.
  void count_too_deep() noexcept {
    ++too_deep_;
    recording_->count_drops(DropReason::kStackTooDeep);
  }
  [[nodiscard]] bool forgive_too_deep() noexcept {
    if (too_deep_ == 0) {
      return false;
    }
    --too_deep_;
    return true;
  }

  // The track of this thread exists; false when there is no room for it, with the reason in `failure`.
  bool ensure_thread_record(std::uint64_t torch_thread, DropReason& failure) noexcept;
  // Adds the drops not yet in the header of the recording.
  void add_pending_drops(DropCounts& counts) const noexcept {
    dropped_.add_pending(counts);
    frames_.add_pending_drops(counts);
    memory_.add_pending_drops(counts);
  }

 private:
  static constexpr std::uint64_t kRetryRoomOps = 1024;

  OpRecord* begin(const torchprof_op_start& op, EventKind kind, std::uint16_t flags) noexcept {
    std::byte* room = ops_.reserve_fast(sizeof(OpRecord));
    if (room == nullptr) [[unlikely]] {
      room = reserve_op(op.torch_thread);
      if (room == nullptr) {
        return &discard_;
      }
    }
    return write_op(room, op, kind, flags);
  }
  OpRecord* write_op(std::byte* room, const torchprof_op_start& op, EventKind kind,
                     std::uint16_t flags) noexcept;
  [[nodiscard]] std::byte* reserve_op(std::uint64_t torch_thread) noexcept;
  [[nodiscard]] std::uint32_t store_inputs(const torchprof_op_start& op, std::uint16_t& flags) noexcept;

  // What every op needs comes first, on three cache lines.
  ActiveRecording* recording_ = nullptr;
  ChunkCursor ops_{ChunkKind::kOps, sizeof(OpRecord)};
  EventCounters* counters_ = nullptr;
  bool torch_thread_known_ = false;
  bool counters_asked_ = false;
  bool has_pushed_ = false;
  OpenStack open_ops_;

  ChunkCursor inputs_{ChunkKind::kPayload, 1};
  std::uint32_t ordinal_ = 0;
  std::uint32_t os_thread_id_ = 0;
  ThreadRecord* thread_record_ = nullptr;
  const char* thread_name_ = nullptr;

  DropBackoff dropped_;
  std::uint64_t too_deep_ = 0;
  std::uint64_t no_room_count_ = 0;

  std::uint64_t names_recording_id_ = 0;
  FrameLog frames_{*this};
  MemoryLog memory_{*this};
  NameCache names_;
  PushedOps pushed_ops_;
  OpRecord discard_{};
};

inline OpRecord* ThreadBuffer::write_op(std::byte* room, const torchprof_op_start& op, EventKind kind,
                                        std::uint16_t flags) noexcept {
  const StringEntry& name = names_.find(op.name, op.overload, recording_->strings());
  if (StringTable::is_placeholder(name)) [[unlikely]] {
    recording_->count_drops(DropReason::kNameTableFull);
  }
  std::uint32_t payload = 0;
  if (op.inputs != nullptr) {
    payload = store_inputs(op, flags);
  }
  auto* record = reinterpret_cast<OpRecord*>(room);
  record->end_ticks.store(0, std::memory_order_relaxed);
  record->name = name.id;
  record->kind = static_cast<std::uint8_t>(kind);
  record->scope = op.scope;
  record->flags.store(flags, std::memory_order_relaxed);
  record->sequence = op.sequence;
  record->forward_thread = static_cast<std::uint32_t>(op.forward_thread);
  record->end_thread = 0;
  record->payload = payload;
  record->error = 0;
  record->start_ticks = ticks();
  ops_.commit_record(sizeof(OpRecord));
  return record;
}

inline void end_op(OpRecord& record, std::uint64_t end_ticks, bool is_async) noexcept {
  if (is_async) [[unlikely]] {
    record.flags.fetch_or(kFlagAsync, std::memory_order_relaxed);
  }
  record.end_ticks.store(end_ticks, std::memory_order_release);
}

// For an op that is still open when its recording ends.
void end_unfinished(OpRecord& record, std::uint64_t stop_ticks) noexcept;

}  // namespace torchprof
