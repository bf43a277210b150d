#include "core/process_identity.h"

#include <sys/random.h>
#include <unistd.h>

#include <atomic>

#include "core/clock.h"

namespace torchprof {
namespace {

std::uint64_t random_instance() noexcept {
  std::uint64_t value = 0;
  if (::getrandom(&value, sizeof(value), GRND_NONBLOCK) != sizeof(value) || value == 0) {
    // Early boot only: the counter and the process id still differ between processes.
    constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;
    value = (ticks() ^ (static_cast<std::uint64_t>(::getpid()) << 40U)) * kOdd | 1U;
  }
  return value;
}

std::atomic<std::uint64_t> instance{random_instance()};
std::atomic<std::uint64_t> generation{0};

}  // namespace

std::uint64_t process_instance() noexcept { return instance.load(std::memory_order_relaxed); }

std::uint64_t fork_generation() noexcept { return generation.load(std::memory_order_relaxed); }

void renew_process_identity() noexcept {
  instance.store(random_instance(), std::memory_order_relaxed);
  generation.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace torchprof
