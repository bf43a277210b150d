#include "core/op_hooks.h"

#include <cstdint>

#include "core/aggregate/count_hooks.h"
#include "core/clock.h"
#include "core/registry.h"

namespace torchprof {
namespace {

// Everything not expected on an op's way stands in functions of its own, out of the way of the common one.
#define TORCHPROF_COLD __attribute__((noinline, cold))
// And the common one is one piece: the steps of a hook are functions to read, not to call.
#define TORCHPROF_HOT __attribute__((always_inline)) inline

TORCHPROF_COLD ThreadState* attach(std::uint32_t slot) noexcept {
  // A thread met for the first time at a stopped slot needs no state.
  if (slots[slot].recording.load(std::memory_order_relaxed) == nullptr) {
    return nullptr;
  }
  return Registry::instance().attach_current_thread(slot);
}

TORCHPROF_COLD void count_not_entered(const ThreadState& thread, std::uint32_t slot) noexcept {
  if (&thread == &ended_thread) {
    Registry::instance().count_stateless_op(slot);
  }
}

TORCHPROF_COLD ThreadBuffer* bind(ThreadState& thread, std::uint32_t slot,
                                  ActiveRecording& recording) noexcept {
  ThreadBuffer* buffer = Registry::instance().bind(thread, slot, recording);
  if (buffer != nullptr) {
    buffer->join_counters();
  }
  return buffer;
}

ThreadBuffer* buffer_of(ThreadState& thread, std::uint32_t slot, ActiveRecording& recording) noexcept {
  ThreadBuffer* buffer = thread.buffers[slot].load(std::memory_order_relaxed);
  if (buffer == nullptr || buffer->recording() != &recording) [[unlikely]] {
    return bind(thread, slot, recording);
  }
  return buffer;
}

TORCHPROF_COLD bool make_room(ThreadBuffer& buffer) noexcept {
  if (Registry::instance().make_room_to_open(buffer) && buffer.open_ops().has_room()) {
    return true;
  }
  buffer.count_too_deep();
  return false;
}

// After the time of the end was taken.
void tell_of_end(ThreadBuffer& buffer, const OpRecord& record) noexcept {
  if (buffer.has_to_tell_of_ends()) [[unlikely]] {
    buffer.tell_of_end(record);
  }
}

TORCHPROF_COLD void end_not_innermost(ThreadState& thread, std::uint32_t slot, ActiveRecording& recording,
                                      const void* key, bool is_async) noexcept {
  const std::uint64_t end_ticks = ticks();
  ThreadBuffer* buffer = buffer_of(thread, slot, recording);
  if (buffer == nullptr) {
    return;
  }
  if (OpRecord* record = buffer->open_ops().take(key); record != nullptr) {
    end_op(*record, end_ticks, is_async);
    tell_of_end(*buffer, *record);
    return;
  }
  DropReason failure{};
  static_cast<void>(
      buffer->ensure_thread_record(0, failure));  // the ending thread needs a track to be named by
  const Registry::Ended ended = Registry::instance().end_elsewhere(slot, *buffer, key, end_ticks, is_async);
  if (ended == Registry::Ended::kUnknown && !buffer->forgive_too_deep()) {
    recording.count_drops(DropReason::kUnmatchedEnd);
  }
}

// What every hook does first: `record(thread, recording)` inside the hook, or `refuse(thread)` where the
// thread may record nothing. False when the slot records nothing; what the caller does then is outside the
// hook.
template <typename Record, typename Refuse>
TORCHPROF_HOT bool hook(std::uint32_t slot, Record record, Refuse refuse) noexcept {
  ThreadState* thread = current_thread;
  if (thread == nullptr) [[unlikely]] {
    thread = attach(slot);
    if (thread == nullptr) {
      return false;
    }
  }
  const HookScope scope(*thread);
  if (!scope.entered()) [[unlikely]] {
    refuse(*thread);
    return true;
  }
  ActiveRecording* recording = slots[slot].recording.load(std::memory_order_seq_cst);
  if (recording == nullptr) [[unlikely]] {
    return false;
  }
  record(*thread, *recording);
  return true;
}

// `begin(buffer)` writes the record. False when the slot records nothing.
template <typename Begin>
TORCHPROF_HOT bool open_event(std::uint32_t slot, const void* key, Begin begin) noexcept {
  return hook(
      slot,
      [&](ThreadState& thread, ActiveRecording& recording) noexcept {
        ThreadBuffer* buffer = buffer_of(thread, slot, recording);
        if (buffer == nullptr) [[unlikely]] {
          return;
        }
        if (!buffer->open_ops().has_room()) [[unlikely]] {
          if (!make_room(*buffer)) {
            return;
          }
        }
        buffer->open_ops().push(key, begin(*buffer));
      },
      [slot](const ThreadState& thread) noexcept { count_not_entered(thread, slot); });
}

// False when the op is not to be counted, or cannot be.
bool read_counters(const Slot& slot, ThreadBuffer& buffer, const torchprof_op_start& op) noexcept {
  if (!slot.counts(op.is_user != 0)) {
    return false;
  }
  buffer.join_counters();
  return buffer.counters() != nullptr && buffer.counters()->read_start();
}

TORCHPROF_COLD OpRecord* begin_told_op(const Slot& slot, ThreadBuffer& buffer,
                                       const torchprof_op_start& op) noexcept {
  const bool is_counted = read_counters(slot, buffer, op);
  OpRecord* const record = buffer.begin_op(op);
  if (buffer.is_discard(record)) {
    return record;
  }
  if (is_counted) {
    buffer.counters()->opened(*record);
  }
  if (DeviceCollector* const device = slot.device.load(std::memory_order_acquire); device != nullptr) {
    buffer.push_to_device(*device, *record);
  }
  return record;
}

TORCHPROF_COLD void count_stopped(Slot& slot) noexcept {
  if (slot.stopping.load(std::memory_order_relaxed)) {
    slot.started_while_stopping.fetch_add(1, std::memory_order_relaxed);
  }
}

TORCHPROF_COLD void start_unrecorded(std::uint32_t slot, const torchprof_op_start& op) noexcept {
  if (OpListener* const listener = slots[slot].listener.load(std::memory_order_acquire);
      listener != nullptr) {
    listener->started(op);
  } else {
    count_stopped(slots[slot]);
  }
}

TORCHPROF_COLD void end_unrecorded(std::uint32_t slot, const void* key) noexcept {
  if (OpListener* const listener = slots[slot].listener.load(std::memory_order_acquire);
      listener != nullptr) {
    listener->ended(key);
  }
}

void op_start(std::uint32_t slot, const torchprof_op_start* op) noexcept {
  const bool records = open_event(slot, op->key, [slot, op](ThreadBuffer& buffer) noexcept {
    return slots[slot].only_records() ? buffer.begin_op(*op) : begin_told_op(slots[slot], buffer, *op);
  });
  if (!records) [[unlikely]] {
    start_unrecorded(slot, *op);
  }
}

void op_end(std::uint32_t slot, const void* key, std::uint8_t is_async) noexcept {
  const bool records = hook(
      slot,
      [&](ThreadState& thread, ActiveRecording& recording) noexcept {
        ThreadBuffer* buffer = thread.buffers[slot].load(std::memory_order_relaxed);
        if (buffer != nullptr && buffer->recording() == &recording) [[likely]] {
          if (OpRecord* record = buffer->open_ops().pop(key); record != nullptr) [[likely]] {
            end_op(*record, ticks(), is_async != 0);
            tell_of_end(*buffer, *record);
            return;
          }
        }
        end_not_innermost(thread, slot, recording, key, is_async != 0);
      },
      [](const ThreadState&) noexcept {});
  if (!records) [[unlikely]] {
    end_unrecorded(slot, key);
  }
}

void memory_event(std::uint32_t slot, const torchprof_memory_event* event) noexcept {
  hook(
      slot,
      [&](ThreadState& thread, ActiveRecording& recording) noexcept {
        if (ThreadBuffer* buffer = buffer_of(thread, slot, recording); buffer != nullptr) [[likely]] {
          buffer->memory().record(*event);
        }
      },
      [slot](const ThreadState& thread) noexcept { count_not_entered(thread, slot); });
}

std::uint8_t* allocator_mark() noexcept { return &inside_allocator; }

int slot_active(std::uint32_t slot) noexcept {
  const Slot& at = slots[slot];
  const bool is_active = at.recording.load(std::memory_order_relaxed) != nullptr ||
                         at.listener.load(std::memory_order_relaxed) != nullptr;
  return is_active ? 1 : 0;
}

constexpr torchprof_core_table kTable{
    .abi_version = TORCHPROF_BRIDGE_ABI_VERSION,
    .table_bytes = sizeof(torchprof_core_table),
    .op_start = op_start,
    .op_end = op_end,
    .slot_active = slot_active,
    .memory_event = memory_event,
    .allocator_mark = allocator_mark,
    .count_start = count_start,
    .count_end = count_end,
};

}  // namespace

const torchprof_core_table& core_table() noexcept { return kTable; }

void begin_event(std::uint32_t slot, const EventStart& event) noexcept {
  if (!open_event(slot, event.key, [&event](ThreadBuffer& buffer) { return buffer.begin_event(event); }))
      [[unlikely]] {
    count_stopped(slots[slot]);
  }
}

void end_event(std::uint32_t slot, const void* key) noexcept { op_end(slot, key, 0); }

void fail_event(std::uint32_t slot, const void* key, const char* error_type) noexcept {
  hook(
      slot,
      [&](ThreadState& thread, ActiveRecording& recording) noexcept {
        ThreadBuffer* buffer = thread.buffers[slot].load(std::memory_order_relaxed);
        if (buffer == nullptr || buffer->recording() != &recording) {
          return;
        }
        if (OpRecord* record = buffer->open_ops().find(key); record != nullptr) {
          buffer->fail_event(*record, error_type);
        }
      },
      [](const ThreadState&) noexcept {});
}

std::uint32_t current_thread_ordinal(std::uint32_t slot, ActiveRecording& recording) noexcept {
  ThreadState* thread = current_thread != nullptr ? current_thread : attach(slot);
  if (thread == nullptr) {
    return 0;
  }
  const HookScope hook(*thread);
  if (!hook.entered() || slots[slot].recording.load(std::memory_order_seq_cst) != &recording) {
    return 0;
  }
  ThreadBuffer* buffer = buffer_of(*thread, slot, recording);
  DropReason failure{};
  return buffer != nullptr && buffer->ensure_thread_record(0, failure) ? buffer->ordinal() : 0;
}

}  // namespace torchprof
