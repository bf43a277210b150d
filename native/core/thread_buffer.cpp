#include "core/thread_buffer.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/clock.h"
#include "core/counter_log.h"

namespace torchprof {

void ThreadBuffer::bind(ActiveRecording& recording, std::uint32_t os_thread_id,
                        const char* thread_name) noexcept {
  recording_ = &recording;
  os_thread_id_ = os_thread_id;
  thread_name_ = thread_name;
  ordinal_ = recording.claim_ordinal(os_thread_id, thread_name, thread_record_);
  frames_.bind(recording);
  ops_.set_thread(ordinal_);
  inputs_.set_thread(ordinal_);
  // A buffer that served another thread of the same recording keeps the names it knows.
  if (names_recording_id_ != recording.id()) {
    names_.clear();
    names_recording_id_ = recording.id();
  }
}

void ThreadBuffer::unbind() noexcept {
  frames_.close(ticks());
  if (counters_ != nullptr) {
    counters_->leave();
    counters_ = nullptr;
  }
  counters_asked_ = false;
  // Ops that go on: their thread alone could pop them, and finds them below its next ones. They are of
  // another recording then.
  pushed_ops_ = {};
  has_pushed_ = false;
  dropped_.close(*recording_);
  ops_.close(recording_->arena());
  inputs_.close(recording_->arena());
  memory_.close();
  recording_ = nullptr;
  thread_record_ = nullptr;
  torch_thread_known_ = false;
  too_deep_ = 0;
  no_room_count_ = 0;
}

void ThreadBuffer::join_counters() noexcept {
  CounterLog* const log = recording_->counters();
  if (counters_asked_ || log == nullptr) {
    return;
  }
  counters_asked_ = true;
  counters_ = log->join(os_thread_id_, ordinal_);
}

void ThreadBuffer::push_to_device(DeviceCollector& collector, const OpRecord& op) noexcept {
  pushed_ops_.push(collector, device_op_id(*recording_, op), op);
  has_pushed_ = !pushed_ops_.empty();
}

void ThreadBuffer::tell_of_end(const OpRecord& op) noexcept {
  if (counters_ != nullptr) {
    counters_->ended(op);
  }
  if (has_pushed_) {
    pushed_ops_.pop(op);
    has_pushed_ = !pushed_ops_.empty();
  }
}

bool ThreadBuffer::make_room_to_open() noexcept {
  // Looking costs a walk over the whole stack, so a thread that stays this deep looks now and then.
  if (no_room_count_ % kRetryRoomOps == 0 && open_ops_.make_room()) {
    no_room_count_ = 0;
    return true;
  }
  ++no_room_count_;
  return false;
}

bool ThreadBuffer::ensure_thread_record(std::uint64_t torch_thread, DropReason& failure) noexcept {
  if (thread_record_ == nullptr) {
    thread_record_ = recording_->add_thread(ordinal_, os_thread_id_, thread_name_, failure);
  }
  if (thread_record_ == nullptr) {
    return false;
  }
  if (torch_thread != 0) {
    thread_record_->torch_thread_id.store(torch_thread, std::memory_order_relaxed);
  }
  return true;
}

std::byte* ThreadBuffer::reserve_op(std::uint64_t torch_thread) noexcept {
  return dropped_.reserve(*recording_, [&](DropReason& failure) noexcept -> std::byte* {
    if (!ensure_thread_record(torch_thread, failure)) {
      return nullptr;
    }
    std::byte* room = ops_.reserve(recording_->arena(), sizeof(OpRecord));
    failure = ops_.failure();
    return room;
  });
}

OpRecord* ThreadBuffer::begin_event(const EventStart& event) noexcept {
  torchprof_op_start op{};
  op.key = event.key;
  op.name = event.name;
  op.overload = event.overload;
  op.sequence = -1;
  return begin(op, event.kind, event.flags);
}

std::uint32_t ThreadBuffer::store_inputs(const torchprof_op_start& op, std::uint16_t& flags) noexcept {
  if (op.inputs_cut != 0) {
    flags |= kFlagPayloadCut;
  }
  if (op.inputs_bytes > kMaxInputsBytes) {
    flags |= kFlagPayloadCut;
    recording_->count_drops(DropReason::kPayloadTooLarge);
    return 0;
  }
  const auto inputs_bytes = static_cast<std::uint32_t>(op.inputs_bytes);
  const std::uint64_t size_bytes = (sizeof(inputs_bytes) + inputs_bytes + kPayloadAlignBytes - 1) /
                                   kPayloadAlignBytes * kPayloadAlignBytes;
  std::byte* room = inputs_.reserve(recording_->arena(), size_bytes);
  if (room == nullptr) {
    flags |= kFlagPayloadCut;
    recording_->count_drops(inputs_.failure());
    return 0;
  }
  std::memcpy(room, &inputs_bytes, sizeof(inputs_bytes));
  std::memcpy(room + sizeof(inputs_bytes), op.inputs, inputs_bytes);
  inputs_.commit_bytes(size_bytes);
  return static_cast<std::uint32_t>(recording_->arena().offset_of(room) / kPayloadAlignBytes);
}

void end_unfinished(OpRecord& record, std::uint64_t stop_ticks) noexcept {
  std::uint64_t open = 0;
  if (record.end_ticks.compare_exchange_strong(open, stop_ticks, std::memory_order_acq_rel)) {
    record.flags.fetch_or(kFlagUnfinished, std::memory_order_release);
  }
}

}  // namespace torchprof
