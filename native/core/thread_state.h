// What the recorder keeps of a thread, and how a stopping capture learns that no thread is inside a hook.
//
// A hook announces itself with a plain store and then reads whether its slot records. Whoever stops a slot
// clears it, makes every running thread pass a memory barrier (membarrier(2)) and then looks at the
// announcements: a thread seen outside will see the cleared slot. The hook thus pays for no barrier.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "core/thread_buffer.h"
#include "torch/bridge_abi.h"

namespace torchprof {

inline constexpr std::uint32_t kSlots = TORCHPROF_CAPTURE_SLOTS;
// Beside the slots, counting is what hooks work for.
inline constexpr std::uint32_t kCountingUser = kSlots;

class ThreadCounts;

#if defined(__SANITIZE_THREAD__)
#define TORCHPROF_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TORCHPROF_TSAN 1
#endif
#endif

// Never freed, only reused: a stop may still look at the state of a thread that has just ended.
struct ThreadState {
  std::atomic<std::uint64_t> hook_sequence{0};  // odd inside a hook
  std::array<std::atomic<ThreadBuffer*>, kSlots> buffers{};
  std::atomic<ThreadCounts*> counts{nullptr};
  // What a stop of each slot, and of counting, saw in `hook_sequence`; under the registry's lock.
  std::array<std::uint64_t, kSlots + 1> seen_sequence{};
  std::uint32_t os_thread_id = 0;
  int exit_rounds = 0;
  std::array<char, 16> name{};  // as pthread_getname_np gives it
};

// Trivial, so that hooks in late thread-local destructors still work; initial-exec, so that reading it is
// one instruction in a library opened with dlopen too.
extern constinit thread_local ThreadState* current_thread __attribute__((tls_model("initial-exec")));
// Set by the bridge while the thread is inside an allocator that reports.
extern constinit thread_local std::uint8_t inside_allocator __attribute__((tls_model("initial-exec")));
// Stands for a thread that is all but gone: always "inside a hook", so that nothing is recorded.
extern ThreadState ended_thread;

namespace hook_detail {
#if defined(TORCHPROF_TSAN)
// ThreadSanitizer knows no membarrier: it checks the same protocol with ordinary barriers.
inline constexpr bool membarrier_works = false;
#else
extern const bool membarrier_works;
#endif
}  // namespace hook_detail

// Makes every running thread of the process pass a full barrier, or does nothing when hooks carry their own.
void barrier_on_all_threads() noexcept;
// In the child of a fork: the kernel may not have kept the registration.
void register_for_barriers() noexcept;

// The announcement. `entered()` is false inside another hook of the same thread: nothing must be done then.
class HookScope {
 public:
  explicit HookScope(ThreadState& thread) noexcept
      : thread_(thread), sequence_(thread.hook_sequence.load(std::memory_order_relaxed)) {
    if (!entered()) [[unlikely]] {
      return;
    }
    if (hook_detail::membarrier_works) [[likely]] {
      thread_.hook_sequence.store(sequence_ + 1, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      thread_.hook_sequence.store(sequence_ + 1, std::memory_order_seq_cst);
    }
  }
  ~HookScope() {
    if (entered()) [[likely]] {
      thread_.hook_sequence.store(sequence_ + 2, std::memory_order_release);
    }
  }
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;

  [[nodiscard]] bool entered() const noexcept { return (sequence_ & 1U) == 0; }

 private:
  ThreadState& thread_;
  const std::uint64_t sequence_;
};

}  // namespace torchprof
