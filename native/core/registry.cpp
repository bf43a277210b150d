#include "core/registry.h"

#include <limits.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <system_error>

#include "core/aggregate/thread_counts.h"
#include "core/clock.h"

namespace torchprof {

constinit std::array<Slot, kSlots> slots{};

namespace {

// One round of key destructors stays for other libraries' last ones to find our thread already detached
// rather than gone.
constexpr int kExitRounds = PTHREAD_DESTRUCTOR_ITERATIONS - 1;
// States of ended threads that keep their buffers (names, open stack) for the next thread.
constexpr std::size_t kMaxWarmStates = 64;
constexpr std::size_t kMaxOpenAtStop = 65'536;
constexpr long kStopPollNs = 50'000;
constexpr int kStopPolls = 40'000;  // 2 s

void sleep_ns(long ns) noexcept {
  const timespec time{.tv_sec = 0, .tv_nsec = ns};
  static_cast<void>(::nanosleep(&time, nullptr));
}

std::uint32_t os_thread_id() noexcept { return static_cast<std::uint32_t>(::syscall(SYS_gettid)); }

void delete_buffer(ThreadState& thread, std::uint32_t slot) noexcept {
  delete thread.buffers[slot].exchange(nullptr, std::memory_order_relaxed);
}

bool inside_since_seen(const ThreadState& thread, std::uint32_t user) noexcept {
  const std::uint64_t seen = thread.seen_sequence[user];
  return (seen & 1U) != 0 && thread.hook_sequence.load(std::memory_order_acquire) == seen;
}

template <typename T>
bool try_push(std::vector<T>& values, const T& value) noexcept {
  try {
    values.push_back(value);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace

Registry& Registry::instance() {
  alignas(Registry) static std::array<std::byte, sizeof(Registry)> storage;
  static Registry* const registry = new (storage.data()) Registry;
  return *registry;
}

Registry::Registry() {
  int error = ::pthread_key_create(&exit_key_, &Registry::detach);
  if (error == 0) {
    error = ::pthread_atfork(&Registry::before_fork, &Registry::after_fork_in_parent,
                             &Registry::after_fork_in_child);
  }
  if (error != 0) {
    throw std::system_error(error, std::generic_category(), "cannot watch threads and forks");
  }
}

ThreadState* Registry::attach_current_thread() noexcept {
  ThreadState* thread = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      thread = idle_.back();
      idle_.pop_back();
    } else {
      thread = new (std::nothrow) ThreadState;
    }
    if (thread != nullptr && (::pthread_setspecific(exit_key_, thread) != 0 || !try_push(threads_, thread))) {
      static_cast<void>(::pthread_setspecific(exit_key_, nullptr));
      static_cast<void>(try_push(idle_, thread));
      thread = nullptr;
    }
  }
  if (thread == nullptr) {
    return nullptr;
  }
  thread->os_thread_id = os_thread_id();
  thread->exit_rounds = 0;
  thread->name.fill('\0');
  static_cast<void>(::pthread_getname_np(::pthread_self(), thread->name.data(), thread->name.size()));
  current_thread = thread;
  return thread;
}

ThreadState* Registry::attach_current_thread(std::uint32_t slot) noexcept {
  ThreadState* thread = attach_current_thread();
  if (thread == nullptr) {
    count_stateless_op(slot);
  }
  return thread;
}

void Registry::count_stateless_op(std::uint32_t slot) noexcept {
  const std::lock_guard lock(mutex_);
  // A recording found under the lock stays: a stop takes the lock before it lets go.
  if (ActiveRecording* recording = slots[slot].recording.load(std::memory_order_acquire);
      recording != nullptr) {
    recording->count_drops(DropReason::kNoThreadState);
  }
}

ThreadBuffer* Registry::bind(ThreadState& thread, std::uint32_t slot, ActiveRecording& recording) noexcept {
  const std::lock_guard lock(mutex_);
  if (slots[slot].recording.load(std::memory_order_relaxed) != &recording) {
    return nullptr;
  }
  ThreadBuffer* buffer = thread.buffers[slot].load(std::memory_order_relaxed);
  if (buffer == nullptr) {
    buffer = new (std::nothrow) ThreadBuffer;
    if (buffer == nullptr) {
      recording.count_drops(DropReason::kNoThreadState);
      return nullptr;
    }
    thread.buffers[slot].store(buffer, std::memory_order_relaxed);
  }
  if (buffer->recording() != &recording) {
    buffer->bind(recording, thread.os_thread_id, thread.name.data());
  }
  return buffer;
}

bool Registry::make_room_to_open(ThreadBuffer& buffer) noexcept {
  const std::lock_guard lock(mutex_);
  return buffer.make_room_to_open();
}

Registry::Ended Registry::end_elsewhere(std::uint32_t slot, ThreadBuffer& ender, const void* key,
                                        std::uint64_t end_ticks, bool is_async) noexcept {
  const auto end = [&](OpRecord& record) noexcept {
    std::atomic_ref(record.end_thread).store(ender.ordinal(), std::memory_order_relaxed);
    record.flags.fetch_or(kFlagOtherThread, std::memory_order_relaxed);
    end_op(record, end_ticks, is_async);
  };
  const std::lock_guard lock(mutex_);
  for (ThreadState* thread : threads_) {
    ThreadBuffer* buffer = thread->buffers[slot].load(std::memory_order_relaxed);
    if (buffer == nullptr || buffer == &ender || buffer->recording() != ender.recording()) {
      continue;
    }
    if (OpRecord* record = buffer->open_ops().claim(key); record != nullptr) {
      end(*record);
      return Ended::kHere;
    }
  }
  const auto orphan = std::find_if(orphans_.begin(), orphans_.end(), [&](const Orphan& candidate) noexcept {
    return candidate.slot == slot && candidate.key == key;
  });
  if (orphan != orphans_.end()) {
    if (orphan->record != nullptr) {
      end(*orphan->record);
    }
    *orphan = orphans_.back();
    orphans_.pop_back();
    return Ended::kHere;
  }
  std::vector<const void*>& earlier = open_at_stop_[slot];
  const auto late = std::find(earlier.begin(), earlier.end(), key);
  if (late != earlier.end()) {
    *late = earlier.back();
    earlier.pop_back();
    return Ended::kOpenAtEarlierStop;
  }
  return Ended::kUnknown;
}

ThreadBuffer* Registry::buffer_of(std::uint32_t slot, std::uint32_t os_thread_id) const noexcept {
  for (const ThreadState* thread : threads_) {
    ThreadBuffer* buffer = thread->buffers[slot].load(std::memory_order_relaxed);
    if (thread->os_thread_id == os_thread_id && buffer != nullptr && buffer->recording() != nullptr) {
      return buffer;
    }
  }
  return nullptr;
}

std::uint32_t Registry::ordinal_of(std::uint32_t slot, ActiveRecording& recording,
                                   std::uint32_t os_thread_id) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (const ThreadBuffer* buffer = buffer_of(slot, os_thread_id);
        buffer != nullptr && buffer->recording() == &recording) {
      return buffer->ordinal();
    }
  }
  return recording.ordinal_of_thread(os_thread_id, "");
}

void Registry::lose_frames(std::uint32_t slot, std::uint32_t os_thread_id) noexcept {
  const std::lock_guard lock(mutex_);
  if (ThreadBuffer* buffer = buffer_of(slot, os_thread_id); buffer != nullptr) {
    buffer->frames().lose();
  }
}

int Registry::start(ActiveRecording& recording) noexcept {
  const std::lock_guard lock(mutex_);
  const int slot = free_slot();
  if (slot >= 0) {
    slots[static_cast<std::size_t>(slot)].recording.store(&recording, std::memory_order_release);
  }
  return slot;
}

int Registry::listen(OpListener& listener) noexcept {
  const std::lock_guard lock(mutex_);
  const int slot = free_slot();
  if (slot >= 0) {
    slots[static_cast<std::size_t>(slot)].listener.store(&listener, std::memory_order_release);
  }
  return slot;
}

void Registry::stop_listening(std::uint32_t slot) noexcept {
  slots[slot].listener.store(nullptr, std::memory_order_relaxed);
}

int Registry::free_slot() noexcept {
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    const Slot& slot = slots[i];
    if (slot.recording.load(std::memory_order_relaxed) == nullptr &&
        slot.listener.load(std::memory_order_relaxed) == nullptr &&
        !slot.stopping.load(std::memory_order_relaxed)) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

bool Registry::wait_until_outside(std::uint32_t user) noexcept {
  {
    const std::lock_guard lock(mutex_);
    for (ThreadState* thread : threads_) {
      thread->seen_sequence[user] = thread->hook_sequence.load(std::memory_order_seq_cst);
    }
  }
  for (int poll = 0; poll < kStopPolls; ++poll) {
    {
      const std::lock_guard lock(mutex_);
      if (std::none_of(threads_.begin(), threads_.end(), [user](const ThreadState* thread) noexcept {
            return inside_since_seen(*thread, user);
          })) {
        return true;
      }
    }
    sleep_ns(kStopPollNs);
  }
  return false;
}

bool Registry::stop(std::uint32_t slot_index, ActiveRecording& recording) noexcept {
  Slot& slot = slots[slot_index];
  slot.started_while_stopping.store(0, std::memory_order_relaxed);
  slot.stopping.store(true, std::memory_order_seq_cst);
  slot.recording.store(nullptr, std::memory_order_seq_cst);
  barrier_on_all_threads();
  const bool quiet = wait_until_outside(slot_index);

  const std::lock_guard lock(mutex_);
  close_buffers(slot_index, recording);
  recording.count_drops(DropReason::kStartAfterStop,
                        slot.started_while_stopping.load(std::memory_order_relaxed));
  slot.stopping.store(false, std::memory_order_release);
  return quiet;
}

void Registry::remember_open_at_stop(std::uint32_t slot, const void* key) noexcept {
  if (open_at_stop_[slot].size() < kMaxOpenAtStop) {
    static_cast<void>(try_push(open_at_stop_[slot], key));
  }
}

void Registry::close_buffers(std::uint32_t slot, ActiveRecording& recording) noexcept {
  const std::uint64_t stop_ticks = ticks();
  for (ThreadState* thread : threads_) {
    ThreadBuffer* buffer = thread->buffers[slot].load(std::memory_order_relaxed);
    if (buffer == nullptr || buffer->recording() != &recording) {
      continue;
    }
    if (inside_since_seen(*thread, slot)) {
      // Stuck inside a hook: the buffer stays with the thread for ever.
      thread->buffers[slot].store(nullptr, std::memory_order_relaxed);
      continue;
    }
    buffer->open_ops().drain([&](const void* key, OpRecord& record) noexcept {
      if (!buffer->is_discard(&record)) {
        end_unfinished(record, stop_ticks);
      }
      remember_open_at_stop(slot, key);
    });
    buffer->unbind();
    delete_buffer(*thread, slot);
  }
  for (ThreadState* thread : idle_) {
    delete_buffer(*thread, slot);
  }
  std::erase_if(orphans_, [&](const Orphan& orphan) noexcept {
    if (orphan.slot != slot) {
      return false;
    }
    if (orphan.record != nullptr) {
      end_unfinished(*orphan.record, stop_ticks);
    }
    remember_open_at_stop(slot, orphan.key);
    return true;
  });
}

void Registry::add_pending_drops(std::uint32_t slot, const ActiveRecording& recording,
                                 DropCounts& counts) noexcept {
  const std::lock_guard lock(mutex_);
  for (const ThreadState* thread : threads_) {
    const ThreadBuffer* buffer = thread->buffers[slot].load(std::memory_order_relaxed);
    if (buffer != nullptr && buffer->recording() == &recording) {
      buffer->add_pending_drops(counts);
    }
  }
}

// instance() throws in its first call at most, and this is not the first.
void Registry::detach(void* state) noexcept {  // NOLINT(bugprone-exception-escape)
  auto& thread = *static_cast<ThreadState*>(state);
  Registry& registry = instance();
  // Other key destructors of this thread may still run ops: go as late as possible.
  if (++thread.exit_rounds < kExitRounds && ::pthread_setspecific(registry.exit_key_, &thread) == 0) {
    return;
  }
  current_thread = &ended_thread;
  registry.retire(thread);
}

void Registry::retire(ThreadState& thread) noexcept {
  const std::lock_guard lock(mutex_);
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    ThreadBuffer* buffer = thread.buffers[slot].load(std::memory_order_relaxed);
    if (buffer == nullptr || buffer->recording() == nullptr) {
      continue;
    }
    buffer->open_ops().drain([&](const void* key, OpRecord& record) noexcept {
      OpRecord* kept = buffer->is_discard(&record) ? nullptr : &record;
      static_cast<void>(try_push(orphans_, Orphan{.slot = slot, .key = key, .record = kept}));
    });
    buffer->unbind();
  }
  if (ThreadCounts* counts = thread.counts.exchange(nullptr, std::memory_order_relaxed); counts != nullptr) {
    counts->shared().leave(*counts);
  }
  std::erase(threads_, &thread);
  if (idle_.size() >= kMaxWarmStates) {
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      delete_buffer(thread, slot);
    }
  }
  static_cast<void>(try_push(idle_, &thread));
}

}  // namespace torchprof
