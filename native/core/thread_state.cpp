#include "core/thread_state.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace torchprof {

constinit thread_local ThreadState* current_thread __attribute__((tls_model("initial-exec"))) = nullptr;
constinit thread_local std::uint8_t inside_allocator = 0;

ThreadState ended_thread{.hook_sequence = 1};

namespace {

[[maybe_unused]] bool membarrier(int command) noexcept {
  return ::syscall(SYS_membarrier, command, 0, 0) == 0;
}

}  // namespace

#if defined(TORCHPROF_TSAN)

void register_for_barriers() noexcept {}
void barrier_on_all_threads() noexcept {}

#else

const bool hook_detail::membarrier_works = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);

void register_for_barriers() noexcept {
  if (hook_detail::membarrier_works) {
    membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  }
}

void barrier_on_all_threads() noexcept {
  if (hook_detail::membarrier_works) {
    membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  }
}

#endif

}  // namespace torchprof
