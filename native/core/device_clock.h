// Turns the times of a device's profiling interface into ticks, by two readings of both clocks.
#pragma once

#include <cstdint>

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

  // Never 0, which is no time.
  [[nodiscard]] std::uint64_t to_ticks(std::uint64_t device_ns) const noexcept {
    const auto elapsed_ns =
        static_cast<std::int64_t>(device_ns - static_cast<std::uint64_t>(anchor_.device_ns));
    const double elapsed_ticks = static_cast<double>(elapsed_ns) * ticks_per_ns_;
    constexpr double kLimit = 9.2e18;  // what a signed 64-bit integer holds
    if (elapsed_ticks <= -kLimit || elapsed_ticks >= kLimit) {
      return 1;
    }
    const double rounding = elapsed_ticks < 0 ? -0.5 : 0.5;
    const auto rounded = static_cast<std::int64_t>(elapsed_ticks + rounding);
    if (rounded < 0 && anchor_.ticks <= static_cast<std::uint64_t>(-rounded)) {
      return 1;
    }
    return anchor_.ticks + static_cast<std::uint64_t>(rounded);
  }

 private:
  DeviceClockPair anchor_;
  double ticks_per_ns_ = 1.0;
};

}  // namespace torchprof
