// How much memory the recordings of this process may take together: of what they bring in, not of what they
// reserve. A limit of the machine's, such as a container's, leaves only so much to the program.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

namespace torchprof {

// Any thread may call any method.
class MemoryBudget {
 public:
  // What is taken already stays taken.
  void set_limit(std::uint64_t limit_bytes) noexcept {
    limit_bytes_.store(limit_bytes, std::memory_order_relaxed);
  }
  // All of it, or nothing and false when that would pass the limit.
  [[nodiscard]] bool take(std::uint64_t size_bytes) noexcept {
    std::uint64_t taken = taken_bytes_.load(std::memory_order_relaxed);
    do {
      const std::uint64_t limit = limit_bytes_.load(std::memory_order_relaxed);
      if (taken > limit || size_bytes > limit - taken) {
        return false;
      }
    } while (!taken_bytes_.compare_exchange_weak(taken, taken + size_bytes, std::memory_order_relaxed));
    return true;
  }
  // Passes the limit if need be: what no recording can do without.
  void take_anyway(std::uint64_t size_bytes) noexcept {
    taken_bytes_.fetch_add(size_bytes, std::memory_order_relaxed);
  }
  void give_back(std::uint64_t size_bytes) noexcept {
    taken_bytes_.fetch_sub(size_bytes, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t taken_bytes() const noexcept {
    return taken_bytes_.load(std::memory_order_relaxed);
  }
  // In the child of a fork, which has no recording of its own yet.
  void forget_taken() noexcept { taken_bytes_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> limit_bytes_{std::numeric_limits<std::uint64_t>::max()};
  std::atomic<std::uint64_t> taken_bytes_{0};
};

inline constinit MemoryBudget process_memory;

}  // namespace torchprof
