// What a fork leaves in the child: one thread, and no memory of any active recording (MADV_DONTFORK). The
// child starts empty: nothing of the parent's captures is touched, nothing of its threads is trusted.
#include <sys/syscall.h>
#include <unistd.h>

#include "core/memory_budget.h"
#include "core/populator.h"
#include "core/process_identity.h"
#include "core/registry.h"
#include "core/user_scope.h"

namespace torchprof {

void Registry::before_fork() noexcept { instance().mutex_.lock(); }

void Registry::after_fork_in_parent() noexcept { instance().mutex_.unlock(); }

void Registry::after_fork_in_child() noexcept {
  renew_process_identity();
  register_for_barriers();
  Populator::reset_after_fork();
  process_memory.forget_taken();
  Registry& registry = instance();
  registry.forget_parent();
  registry.mutex_.unlock();
}

void Registry::forget_parent() noexcept {
  for (Slot& slot : slots) {
    slot.recording.store(nullptr, std::memory_order_relaxed);
    slot.listener.store(nullptr, std::memory_order_relaxed);
    slot.stopping.store(false, std::memory_order_relaxed);
    slot.device.store(nullptr, std::memory_order_relaxed);
  }
  counting.store(nullptr, std::memory_order_relaxed);
  forget_scope_listeners();
  for (ThreadState* thread : threads_) {
    for (auto& buffer : thread->buffers) {
      // Left, not deleted: its thread may have been in the middle of changing it.
      buffer.store(nullptr, std::memory_order_relaxed);
    }
    thread->counts.store(nullptr, std::memory_order_relaxed);
    thread->hook_sequence.store(0, std::memory_order_relaxed);
  }
  // States of threads that do not exist here are left too; only the one that forked goes on.
  threads_.clear();
  ThreadState* self = current_thread;
  if (self != nullptr && self != &ended_thread) {
    self->os_thread_id = static_cast<std::uint32_t>(::syscall(SYS_gettid));
    threads_.push_back(self);  // within the capacity it had
  }
  orphans_.clear();
  for (auto& keys : open_at_stop_) {
    keys.clear();
  }
}

}  // namespace torchprof
