// Turns the clock readings of a recording into unix ns, within bounds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/clock.h"
#include "core/problems.h"
#include "core/recording.h"

namespace torchprof {

class TimeReader {
 public:
  // Counts a problem when the two pairs give no rate to convert with.
  TimeReader(ClockSource source, const ClockPair& start, const ClockPair& latest, ProblemCounts& problems)
      : converter_(start, latest), is_unix_ns_(source == ClockSource::kUnixNs), problems_(problems) {
    if (is_unix_ns_) return;
    const bool is_calibrated =
        latest.ticks > start.ticks && latest.monotonic_ns > start.monotonic_ns && start.realtime_ns >= 0;
    if (!is_calibrated) problems_.add(ReadProblem::kClockNotCalibrated);
  }

  [[nodiscard]] std::int64_t unix_ns(std::uint64_t ticks) noexcept {
    return in_range(is_unix_ns_ ? static_cast<std::int64_t>(ticks) : converter_.to_unix_ns(ticks));
  }

  [[nodiscard]] std::int64_t in_range(std::int64_t time_ns) noexcept {
    if (time_ns < -kMaxTimeNs || time_ns > kMaxTimeNs) [[unlikely]] {
      problems_.add(ReadProblem::kTimeOutOfRange);
      time_ns = std::clamp(time_ns, -kMaxTimeNs, kMaxTimeNs);
    }
    last_ns_ = std::max(last_ns_, time_ns);
    return time_ns;
  }

  // An end, which cannot be before its start.
  [[nodiscard]] std::int64_t no_earlier(std::int64_t end_ns, std::int64_t start_ns) noexcept {
    if (end_ns < start_ns) [[unlikely]]
      problems_.add(ReadProblem::kNegativeDuration);
    return std::max(start_ns, end_ns);
  }

  [[nodiscard]] bool is_unix_ns() const noexcept { return is_unix_ns_; }

  // The latest time read so far.
  [[nodiscard]] std::int64_t last_ns() const noexcept { return last_ns_; }

 private:
  TickConverter converter_;
  bool is_unix_ns_;
  ProblemCounts& problems_;
  std::int64_t last_ns_ = -kMaxTimeNs;
};

}  // namespace torchprof
