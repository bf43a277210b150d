// Turns the times of a device's profiling interface into ticks, by two readings of both clocks.
#pragma once

#include <cstdint>
#include <limits>

namespace torchprof {

// One moment on the interface's clock, which all its times are on, and on ours.
struct DeviceClockPair {
  std::int64_t device_ns = 0;
  std::uint64_t ticks = 0;
};

// The line through two pairs. What lies between them is as exact as they are, however the interface's clock
// is slewed meanwhile. One that was stepped, or pairs too close to each other, say nothing of the rate: then
// both clocks are taken to run alike from the later pair on.
class DeviceClockLine {
 public:
  DeviceClockLine() = default;
  // `ticks_per_ns`: the rate of ours.
  DeviceClockLine(const DeviceClockPair& start, const DeviceClockPair& latest, double ticks_per_ns) noexcept;

  // The later of the two pairs. Nothing has ended long after the interface was asked for its time.
  [[nodiscard]] const DeviceClockPair& latest() const noexcept { return anchor_; }

  // Never 0, which is no time. 1 where no clock of ours has ever been.
  [[nodiscard]] std::uint64_t to_ticks(std::uint64_t device_ns) const noexcept {
    const auto elapsed_ns =
        static_cast<std::int64_t>(device_ns - static_cast<std::uint64_t>(anchor_.device_ns));
    constexpr Int128 kHalf = Int128{1} << (kRateBits - 1U);
    const Int128 ticks = anchor_.ticks + ((Int128{elapsed_ns} * rate_ + kHalf) >> kRateBits);
    return ticks > 0 && ticks <= std::numeric_limits<std::uint64_t>::max() ? static_cast<std::uint64_t>(ticks)
                                                                           : 1;
  }

 private:
  __extension__ using Int128 = __int128;

  // Ticks a ns, in units of 2^-52: as exact as a double, and each time is one multiplication of integers.
  static constexpr unsigned kRateBits = 52;

  void set_rate(double ticks_per_ns) noexcept;

  DeviceClockPair anchor_;
  std::int64_t rate_ = std::int64_t{1} << kRateBits;
};

}  // namespace torchprof
