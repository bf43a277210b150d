// The time of an event is a raw counter value; two readings of that counter beside the wall clock turn it
// into unix nanoseconds afterwards, so that a hook pays for one instruction and no conversion.
#pragma once

#include <cstdint>

#include "core/layout.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace torchprof {

namespace clock_detail {
// Whether the processor's own counter can be trusted; decided once, when the library is loaded.
extern const bool use_counter;
// CLOCK_MONOTONIC_RAW where the kernel has it.
std::uint64_t system_ticks() noexcept;
}  // namespace clock_detail

// The current value of the counter; never zero.
inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
  if (clock_detail::use_counter) [[likely]] {
    return __rdtsc();
  }
#elif defined(__aarch64__)
  if (clock_detail::use_counter) [[likely]] {
    std::uint64_t value = 0;
    asm volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
  }
#endif
  return clock_detail::system_ticks();
}

ClockSource clock_source() noexcept;

// The counter, the wall clock and CLOCK_MONOTONIC read as nearly at once as the machine allows.
ClockPair read_clock_pair() noexcept;

// Two pairs closer than this do not give a usable rate.
inline constexpr std::int64_t kMinCalibrationNs = 1'000'000;

// The rate of the counter, from the load of the library to now. Waits when that was less than
// kMinCalibrationNs ago.
double ns_per_tick() noexcept;

// Turns counter values into unix ns. The wall clock is read at `start` only and the rate comes from
// CLOCK_MONOTONIC, so a step of the wall clock during a recording bends no duration. Exact to 1 ns over
// months, monotonic, and total: pairs from a damaged file give some line, never undefined behaviour.
class TickConverter {
 public:
  TickConverter(const ClockPair& start, const ClockPair& latest) noexcept;

  [[nodiscard]] std::int64_t to_unix_ns(std::uint64_t ticks) const noexcept;

 private:
  std::uint64_t start_ticks_;
  std::int64_t start_unix_ns_;
  std::uint64_t multiplier_;  // ns per tick, times 2^shift_
  unsigned shift_;
};

}  // namespace torchprof
