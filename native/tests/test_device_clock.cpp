#include <doctest/doctest.h>

#include <cstdint>

#include "core/device_clock.h"
#include "sources/cupti/record_decoder.h"

using torchprof::DeviceClockLine;
using torchprof::DeviceClockPair;

namespace {

constexpr std::int64_t kUnixNs = 1'700'000'000'000'000'000;

}  // namespace

TEST_CASE("times between two pairs lie on the line through them") {
  // Three ticks a ns, and a device clock that runs slow by 100 in a million.
  const DeviceClockPair start{.device_ns = kUnixNs, .ticks = 5'000};
  const DeviceClockPair latest{.device_ns = kUnixNs + 999'900'000, .ticks = 3'000'005'000};
  const DeviceClockLine line(start, latest, 3.0);
  CHECK(line.to_ticks(kUnixNs + 999'900'000) == 3'000'005'000);
  CHECK(line.to_ticks(kUnixNs) == 5'000);
  CHECK(line.to_ticks(kUnixNs + 499'950'000) == 1'500'005'000);
}

TEST_CASE("a clock that was stepped, or pairs close together, give no rate") {
  const DeviceClockPair start{.device_ns = kUnixNs, .ticks = 1'000'000};
  SUBCASE("stepped forward") {
    const DeviceClockLine line(start, {.device_ns = kUnixNs + 3'600'000'000'000, .ticks = 2'000'000}, 1.0);
    CHECK(line.to_ticks(kUnixNs + 3'600'000'000'000 - 500) == 1'999'500);
  }
  SUBCASE("stepped back") {
    const DeviceClockLine line(start, {.device_ns = kUnixNs - 10'000'000, .ticks = 2'000'000}, 1.0);
    CHECK(line.to_ticks(kUnixNs - 10'000'500) == 1'999'500);
  }
  SUBCASE("at once") {
    const DeviceClockLine line(start, start, 2.0);
    CHECK(line.to_ticks(kUnixNs + 100) == 1'000'200);
  }
}

TEST_CASE("a time that no clock has shown is some time, and never none") {
  const DeviceClockPair now{.device_ns = kUnixNs, .ticks = 1'000};
  const DeviceClockLine line(now, now, 1.0);
  CHECK(line.to_ticks(0) == 1);
  CHECK(line.to_ticks(1) == 1);
  CHECK(line.to_ticks(~std::uint64_t{0}) >= 1);
}

TEST_CASE("correlation ids go on where CUPTI's come round") {
  torchprof::cupti::CorrelationIds ids;
  CHECK(ids.widen(0xFFFF'FFF0U) == 0xFFFF'FFF0LL);
  CHECK(ids.widen(0xFFFF'FFFFU) == 0xFFFF'FFFFLL);
  CHECK(ids.widen(2) == 0x1'0000'0002LL);
  CHECK(ids.widen(0xFFFF'FFFEU) == 0xFFFF'FFFELL);  // late, of before
  CHECK(ids.widen(3) == 0x1'0000'0003LL);
}
