#include "core/device_clock.h"

#include <cmath>

namespace torchprof {
namespace {

// NTP slews by at most 500 parts in a million.
constexpr double kMaxSlew = 1e-3;
constexpr std::int64_t kMinDistanceNs = 1'000'000;

}  // namespace

DeviceClockLine::DeviceClockLine(const DeviceClockPair& start, const DeviceClockPair& latest,
                                 double ticks_per_ns) noexcept
    : anchor_(latest), ticks_per_ns_(ticks_per_ns) {
  const std::int64_t elapsed_ns = latest.device_ns - start.device_ns;
  if (elapsed_ns < kMinDistanceNs || latest.ticks <= start.ticks) {
    return;
  }
  const double measured = static_cast<double>(latest.ticks - start.ticks) / static_cast<double>(elapsed_ns);
  if (std::abs((measured / ticks_per_ns) - 1.0) <= kMaxSlew) {
    ticks_per_ns_ = measured;
  }
}

}  // namespace torchprof
