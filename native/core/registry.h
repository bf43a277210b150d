// Which captures record, which threads record into them, and what happens to both when a thread ends, a
// capture stops or the process forks. Everything here takes one lock; hooks come here only when a thread
// or an op is new to them.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/active_recording.h"
#include "core/aggregate/shared_counts.h"
#include "core/op_listener.h"
#include "core/thread_buffer.h"
#include "core/thread_state.h"

namespace torchprof {

class DeviceCollector;

struct alignas(64) Slot {
  // What the slot records into; nullptr while it does not record.
  std::atomic<ActiveRecording*> recording{nullptr};
  // Who is told of ops in place of a recording; nullptr while nobody is.
  std::atomic<OpListener*> listener{nullptr};
  // While a capture stops its hooks may still be called: such ops are counted, not recorded.
  std::atomic<bool> stopping{false};
  std::atomic<std::uint64_t> started_while_stopping{0};
  // Which events of the recording are counted over. Here, where every op looks anyway.
  std::atomic<CounterScope> counter_scope{CounterScope::kNone};

  // Who is told the ids of ops as they begin and end; nullptr while nobody is.
  std::atomic<DeviceCollector*> device{nullptr};

  // Nothing is to be done at the start of an op but to record it.
  [[nodiscard]] bool only_records() const noexcept {
    return counter_scope.load(std::memory_order_relaxed) == CounterScope::kNone &&
           device.load(std::memory_order_relaxed) == nullptr;
  }
  [[nodiscard]] bool counts(bool is_user) const noexcept {
    const CounterScope scope = counter_scope.load(std::memory_order_relaxed);
    return scope != CounterScope::kNone && (is_user || scope == CounterScope::kOps);
  }
};
extern constinit std::array<Slot, kSlots> slots;

class Registry {
 public:
  // The one registry; never destroyed. The first call throws std::system_error when the process has no
  // thread-specific key left.
  static Registry& instance();

  // The calling thread's state; nullptr when there is no memory for one (counted for `slot`, when given).
  ThreadState* attach_current_thread() noexcept;
  ThreadState* attach_current_thread(std::uint32_t slot) noexcept;
  // The thread's buffer, bound to the recording of the slot; nullptr when the slot has stopped or there is
  // no memory (counted).
  ThreadBuffer* bind(ThreadState& thread, std::uint32_t slot, ActiveRecording& recording) noexcept;
  [[nodiscard]] bool make_room_to_open(ThreadBuffer& buffer) noexcept;
  // An op that found no thread state.
  void count_stateless_op(std::uint32_t slot) noexcept;

  enum class Ended { kHere, kOpenAtEarlierStop, kUnknown };
  // Ends an op that another thread began; `ender` is the calling thread's buffer.
  Ended end_elsewhere(std::uint32_t slot, ThreadBuffer& ender, const void* key, std::uint64_t end_ticks,
                      bool is_async) noexcept;

  // The ordinal of a running thread in a recording, its track made if need be; 0 when there is no room for
  // it.
  [[nodiscard]] std::uint32_t ordinal_of(std::uint32_t slot, ActiveRecording& recording,
                                         std::uint32_t os_thread_id) noexcept;
  // Ends the Python frames of a thread that cannot enter or leave one now.
  void lose_frames(std::uint32_t slot, std::uint32_t os_thread_id) noexcept;

  // A free slot, now recording; -1 when all record.
  int start(ActiveRecording& recording) noexcept;
  // Ends recording in a slot: waits until no thread is inside a hook of it, closes open ops, frees the slot.
  // False when a thread did not leave in time: the recording's memory must never be freed then.
  bool stop(std::uint32_t slot, ActiveRecording& recording) noexcept;

  // A slot for a listener instead of a recording; -1 when none is free.
  int listen(OpListener& listener) noexcept;
  // What calls it at that moment may still do.
  void stop_listening(std::uint32_t slot) noexcept;

  // Drops that threads have not put into the header yet.
  void add_pending_drops(std::uint32_t slot, const ActiveRecording& recording, DropCounts& counts) noexcept;

  // Counting, in aggregate/registry_counting.cpp.

  // Begins to count; false when something else is being counted.
  bool start_counting(SharedCounts& shared) noexcept;
  // What runs inside a hook at that moment may still be counted.
  void stop_counting(SharedCounts& shared) noexcept;
  // No thread refers to it any more; false when one did not leave its hook in time: it must never be freed
  // then.
  bool release_counts(SharedCounts& shared) noexcept;
  // The thread's counts there; nullptr when counting has stopped or there is no memory (counted).
  ThreadCounts* bind_counts(ThreadState& thread, SharedCounts& shared) noexcept;
  void make_room_to_count(ThreadCounts& counts) noexcept;
  // Ends an op that another thread began.
  void end_counted_elsewhere(ThreadCounts& ender, const void* key, std::uint64_t end_ticks) noexcept;
  // An op that found no thread state.
  void count_stateless() noexcept;
  [[nodiscard]] std::vector<const ThreadCounts*> counts_of(SharedCounts& shared);

 private:
  // An op whose thread ended before it did.
  struct Orphan {
    std::uint32_t slot;
    const void* key;
    OpRecord* record;  // nullptr when it was dropped
  };

  Registry();
  static void detach(void* state) noexcept;

  // Handlers of pthread_atfork.
  static void before_fork() noexcept;
  static void after_fork_in_parent() noexcept;
  static void after_fork_in_child() noexcept;
  void forget_parent() noexcept;

  // -1 when there is none. Under the lock.
  [[nodiscard]] static int free_slot() noexcept;
  void retire(ThreadState& thread) noexcept;
  // The buffer of a running thread that records in a slot; nullptr when there is none. Under the lock.
  [[nodiscard]] ThreadBuffer* buffer_of(std::uint32_t slot, std::uint32_t os_thread_id) const noexcept;
  // `user` is a slot, or kCountingUser.
  [[nodiscard]] bool wait_until_outside(std::uint32_t user) noexcept;
  void close_buffers(std::uint32_t slot, ActiveRecording& recording) noexcept;
  void remember_open_at_stop(std::uint32_t slot, const void* key) noexcept;

  std::mutex mutex_;
  std::vector<ThreadState*> threads_;  // running
  std::vector<ThreadState*> idle_;     // of threads that have ended
  std::vector<Orphan> orphans_;
  // Ops open when a capture in the slot stopped: their ends may come while the next one records.
  std::array<std::vector<const void*>, kSlots> open_at_stop_;
  pthread_key_t exit_key_{};
};

}  // namespace torchprof
