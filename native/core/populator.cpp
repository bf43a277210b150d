#include "core/populator.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include "core/blocked_signals.h"
#include "core/clock.h"
#include "torch/bridge_abi.h"

namespace torchprof {
namespace {

constexpr long kRoundNs = 250'000'000;
// A capture that is killed early should leave a calibration too.
constexpr long kFirstRoundsNs = 2 * kMinCalibrationNs;

// Wakes one waiter; setting it takes a system call only when nobody has set it before.
class WakeSignal {
 public:
  void set() noexcept {
    if (word_.exchange(1, std::memory_order_release) == 0) {
      ::syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    }
  }
  void wait_for_ns(long timeout_ns) noexcept {
    const timespec timeout{.tv_sec = 0, .tv_nsec = timeout_ns};
    if (word_.load(std::memory_order_acquire) == 0) {
      ::syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, 0, &timeout, nullptr, 0);
    }
    word_.store(0, std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint32_t> word_{0};
};

class Helper {
 public:
  void add(Arena& arena) noexcept {
    const std::lock_guard lifecycle(lifecycle_mutex_);
    {
      const std::lock_guard lock(mutex_);
      *std::find(arenas_.begin(), arenas_.end(), nullptr) = &arena;
    }
    if (!thread_.joinable()) {
      start_thread();
    }
    signal_.set();
  }

  void remove(Arena& arena) noexcept {
    const std::lock_guard lifecycle(lifecycle_mutex_);
    bool last = false;
    {
      const std::lock_guard lock(mutex_);
      std::replace(arenas_.begin(), arenas_.end(), &arena, static_cast<Arena*>(nullptr));
      last = std::all_of(arenas_.begin(), arenas_.end(), [](const Arena* left) { return left == nullptr; });
    }
    if (last && thread_.joinable()) {
      stopping_.store(true, std::memory_order_relaxed);
      signal_.set();
      thread_.join();
      stopping_.store(false, std::memory_order_relaxed);
    }
  }

  void wake() noexcept { signal_.set(); }

 private:
  void start_thread() noexcept {
    const BlockedSignals blocked;
    try {
      thread_ = std::thread([this]() noexcept { run(); });
      // Here, so that whoever looks at the program's threads knows it from the first.
      ::pthread_setname_np(thread_.native_handle(), "torchprof-pages");
    } catch (const std::system_error&) {
      thread_ = {};  // recording threads populate their own memory then
    }
  }

  void run() noexcept {
    while (!stopping_.load(std::memory_order_relaxed)) {
      bool calibrated = true;
      {
        const std::lock_guard lock(mutex_);
        for (Arena* arena : arenas_) {
          if (arena != nullptr) {
            arena->populate_ahead();
            calibrated &= refresh_calibration(arena->header());
          }
        }
      }
      signal_.wait_for_ns(calibrated ? kRoundNs : kFirstRoundsNs);
    }
  }

  std::mutex lifecycle_mutex_;  // of the thread
  std::mutex mutex_;            // of the list; held during a round
  std::array<Arena*, TORCHPROF_CAPTURE_SLOTS> arenas_{};
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  WakeSignal signal_;
};

// Never destroyed: recording threads may outlive static destructors. Replaced in the child of a fork,
// where the locks may be held by threads that do not exist.
alignas(Helper) std::array<std::byte, sizeof(Helper)> helper_storage;
Helper* const helper = new (helper_storage.data()) Helper;

}  // namespace

void Populator::add(Arena& arena) noexcept { helper->add(arena); }
void Populator::remove(Arena& arena) noexcept { helper->remove(arena); }
void Populator::wake() noexcept { helper->wake(); }
void Populator::reset_after_fork() noexcept { new (helper_storage.data()) Helper; }

bool refresh_calibration(FileHeader& header) noexcept {
  const ClockPair now = read_clock_pair();
  if (now.monotonic_ns - header.clock_start.monotonic_ns < kMinCalibrationNs) {
    return false;
  }
  const std::uint64_t sequence = header.clock_latest_sequence.load(std::memory_order_relaxed);
  header.clock_latest_sequence.store(sequence + 1, std::memory_order_relaxed);
  // Released one by one, each after the odd number (ThreadSanitizer knows no fences).
  std::atomic_ref(header.clock_latest.ticks).store(now.ticks, std::memory_order_release);
  std::atomic_ref(header.clock_latest.realtime_ns).store(now.realtime_ns, std::memory_order_release);
  std::atomic_ref(header.clock_latest.monotonic_ns).store(now.monotonic_ns, std::memory_order_release);
  header.clock_latest_sequence.store(sequence + 2, std::memory_order_release);
  return true;
}

}  // namespace torchprof
