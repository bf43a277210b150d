#include "core/clock.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <limits>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace torchprof {
namespace {

__extension__ using Int128 = __int128;
__extension__ using UInt128 = unsigned __int128;

constexpr std::int64_t kNsPerSecond = 1'000'000'000;

std::int64_t read_ns(clockid_t clock) noexcept {
  timespec now{};
  if (clock_gettime(clock, &now) != 0) {
    return 0;
  }
  return (static_cast<std::int64_t>(now.tv_sec) * kNsPerSecond) + now.tv_nsec;
}

#if defined(__x86_64__)
// The kernel stops using the TSC when it sees it jump or drift between cores; so do we.
bool kernel_distrusts_tsc() noexcept {
  std::FILE* file = std::fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
  if (file == nullptr) {
    return false;
  }
  std::array<char, 32> name{};
  const bool read = std::fgets(name.data(), static_cast<int>(name.size()), file) != nullptr;
  static_cast<void>(std::fclose(file));
  return read && std::strcmp(name.data(), "tsc\n") != 0;
}

bool counter_is_constant() noexcept {
  constexpr unsigned kPowerManagementLeaf = 0x80000007;
  constexpr unsigned kInvariantTsc = 1U << 8U;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid(kPowerManagementLeaf, &eax, &ebx, &ecx, &edx) == 0 || (edx & kInvariantTsc) == 0) {
    return false;
  }
  return !kernel_distrusts_tsc();
}
#elif defined(__aarch64__)
bool counter_is_constant() noexcept { return true; }
#else
bool counter_is_constant() noexcept { return false; }
#endif

bool usable(const ClockPair& from, const ClockPair& to) noexcept {
  return to.ticks > from.ticks && to.monotonic_ns >= from.monotonic_ns &&
         static_cast<std::uint64_t>(to.monotonic_ns) - static_cast<std::uint64_t>(from.monotonic_ns) >=
             static_cast<std::uint64_t>(kMinCalibrationNs);
}

}  // namespace

namespace clock_detail {

const bool use_counter = counter_is_constant();

std::uint64_t system_ticks() noexcept {
  const std::int64_t raw = read_ns(CLOCK_MONOTONIC_RAW);
  return static_cast<std::uint64_t>(raw != 0 ? raw : read_ns(CLOCK_MONOTONIC));
}

}  // namespace clock_detail

ClockSource clock_source() noexcept {
  if (!clock_detail::use_counter) {
    return ClockSource::kMonotonicRaw;
  }
#if defined(__aarch64__)
  return ClockSource::kCntvct;
#else
  return ClockSource::kTsc;
#endif
}

ClockPair read_clock_pair() noexcept {
  // The system clocks are read between two counter readings; the tightest of a few tries is the one that
  // no interrupt fell into.
  constexpr int kTries = 8;
  ClockPair best{};
  std::uint64_t best_width = std::numeric_limits<std::uint64_t>::max();
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t before = ticks();
    const std::int64_t monotonic_ns = read_ns(CLOCK_MONOTONIC);
    const std::int64_t realtime_ns = read_ns(CLOCK_REALTIME);
    const std::uint64_t after = ticks();
    const std::uint64_t width = after - before;
    if (width < best_width) {
      best_width = width;
      best = {.ticks = before + (width / 2), .realtime_ns = realtime_ns, .monotonic_ns = monotonic_ns};
    }
  }
  return best;
}

namespace {

// A rate for recordings too short to calibrate themselves: from the load of the library to now. Stands
// after `use_counter`, which decides what it reads.
const ClockPair load_pair = read_clock_pair();

}  // namespace

double ns_per_tick() noexcept {
  ClockPair now = read_clock_pair();
  while (!usable(load_pair, now)) {
    constexpr timespec kPause{.tv_sec = 0, .tv_nsec = kMinCalibrationNs / 4};
    static_cast<void>(::nanosleep(&kPause, nullptr));
    now = read_clock_pair();
  }
  return static_cast<double>(now.monotonic_ns - load_pair.monotonic_ns) /
         static_cast<double>(now.ticks - load_pair.ticks);
}

TickConverter::TickConverter(const ClockPair& start, const ClockPair& latest) noexcept
    : start_ticks_(start.ticks), start_unix_ns_(start.realtime_ns), multiplier_(1), shift_(0) {
  ClockPair from = start;
  ClockPair to = latest;
  if (!usable(from, to)) {
    from = load_pair;
    to = read_clock_pair();
  }
  if (!usable(from, to)) {
    return;  // ticks taken as ns
  }
  const auto elapsed_ns =
      static_cast<std::uint64_t>(to.monotonic_ns) - static_cast<std::uint64_t>(from.monotonic_ns);
  const std::uint64_t elapsed_ticks = to.ticks - from.ticks;
  // As many fraction bits as keep the multiplier below 2^63: the error over 2^53 ticks stays under 1 ns.
  constexpr unsigned kMaxShift = 62;
  constexpr UInt128 kMultiplierLimit = UInt128{1} << 63U;
  shift_ = kMaxShift;
  // Rounded up, so that `latest` itself converts exactly.
  UInt128 multiplier = ((UInt128{elapsed_ns} << shift_) + elapsed_ticks - 1) / elapsed_ticks;
  while (multiplier >= kMultiplierLimit && shift_ > 0) {
    multiplier = (multiplier + 1) >> 1U;
    --shift_;
  }
  multiplier_ = static_cast<std::uint64_t>(std::min(multiplier, kMultiplierLimit - 1));
}

std::int64_t TickConverter::to_unix_ns(std::uint64_t ticks) const noexcept {
  const Int128 elapsed_ticks = static_cast<Int128>(ticks) - static_cast<Int128>(start_ticks_);
  const Int128 elapsed_ns = (elapsed_ticks * static_cast<Int128>(multiplier_)) >> shift_;
  const Int128 unix_ns = elapsed_ns + start_unix_ns_;
  constexpr Int128 kMin = std::numeric_limits<std::int64_t>::min();
  constexpr Int128 kMax = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::clamp(unix_ns, kMin, kMax));
}

}  // namespace torchprof
