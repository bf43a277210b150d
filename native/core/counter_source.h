// What a capture reads counters from. sources/perf_events is the one there is; tests have others.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace torchprof {

inline constexpr std::size_t kMaxCounters = 16;

// What a thread has counted since its counters were opened.
struct CounterReading {
  std::array<std::uint64_t, kMaxCounters> values{};
  // How long they should have counted while the thread ran, and how long they did: less, where there were
  // more counters than the processor has, and each had its turn.
  std::uint64_t enabled_ns = 0;
  std::uint64_t running_ns = 0;
};

// The counters of one thread, closed when destroyed. Reads may come from several threads at once; false when
// there is nothing to be read.
class ThreadCounters {
 public:
  virtual ~ThreadCounters() = default;
  virtual bool read(CounterReading& reading) noexcept = 0;
  // On the thread itself, which may be faster.
  virtual bool read_own(CounterReading& reading) noexcept = 0;
};

class CounterSource {
 public:
  virtual ~CounterSource() = default;
  // Counts from now on; nullptr when that thread's counters cannot be opened.
  virtual std::unique_ptr<ThreadCounters> open(std::uint32_t os_thread_id) noexcept = 0;
};

}  // namespace torchprof
