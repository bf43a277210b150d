#include "core/device_clock.h"

#include <algorithm>
#include <cmath>

namespace torchprof {
namespace {

// NTP slews by at most 500 parts in a million.
constexpr double kMaxSlew = 1e-3;
constexpr std::int64_t kMinDistanceNs = 1'000'000;

}  // namespace

DeviceClockLine::DeviceClockLine(const DeviceClockPair& start, const DeviceClockPair& latest,
                                 double ticks_per_ns) noexcept
    : anchor_(latest) {
  set_rate(ticks_per_ns);
  const std::int64_t elapsed_ns = latest.device_ns - start.device_ns;
  if (elapsed_ns < kMinDistanceNs || latest.ticks <= start.ticks) {
    return;
  }
  const double measured = static_cast<double>(latest.ticks - start.ticks) / static_cast<double>(elapsed_ns);
  if (std::abs((measured / ticks_per_ns) - 1.0) <= kMaxSlew) {
    set_rate(measured);
  }
}

void DeviceClockLine::set_rate(double ticks_per_ns) noexcept {
  constexpr double kMaxRate = 1024;  // no processor counts that fast
  rate_ = std::llround(std::ldexp(std::clamp(ticks_per_ns, 0.0, kMaxRate), kRateBits));
}

}  // namespace torchprof
