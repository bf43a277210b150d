// The buckets of a histogram of durations. Their upper bounds are powers of two of a second, from 2^-20
// (about 1 us) to 2^4; a bucket holds what is longer than the bound before its own and not longer than its
// own.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace torchprof {

inline constexpr int kFirstBoundExponent = -20;
inline constexpr int kLastBoundExponent = 4;
inline constexpr std::size_t kDurationBuckets = kLastBoundExponent - kFirstBoundExponent + 2;

class DurationBuckets {
 public:
  explicit DurationBuckets(double ns_per_tick) noexcept
      : multiplier_(static_cast<std::uint64_t>(std::ldexp(ns_per_tick / 1e9, kShift - kFirstBoundExponent))) {
  }

  [[nodiscard]] std::size_t index(std::uint64_t ticks) const noexcept {
    if (ticks == 0) {
      return 0;
    }
    // The duration in units of the first bound, rounded up, minus 1: its width in bits is the bucket.
    const auto above =
        static_cast<std::uint64_t>(((static_cast<UInt128>(ticks) * multiplier_) - 1) >> kShift);
    return std::min(static_cast<std::size_t>(std::bit_width(above)), kDurationBuckets - 1);
  }

 private:
  __extension__ using UInt128 = unsigned __int128;
  static constexpr int kShift = 44;

  std::uint64_t multiplier_;  // first bounds a tick, times 2^kShift
};

// Written by one thread, read by any.
struct DurationHistogram {
  std::array<std::atomic<std::uint64_t>, kDurationBuckets> counts{};
};

}  // namespace torchprof
