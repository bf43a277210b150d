#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "core/clock.h"

using torchprof::ClockPair;
using torchprof::TickConverter;

namespace {

constexpr std::int64_t kStartNs = 1'700'000'000'123'456'789;
constexpr ClockPair kStart{.ticks = 1'000'000, .realtime_ns = kStartNs, .monotonic_ns = 5'000};

ClockPair after(std::uint64_t ticks, std::int64_t ns) {
  return {.ticks = kStart.ticks + ticks,
          .realtime_ns = kStart.realtime_ns + ns,
          .monotonic_ns = kStart.monotonic_ns + ns};
}

}  // namespace

TEST_CASE("ticks convert exactly at both pairs and between") {
  const TickConverter converter(kStart, after(3'000'000'000, 1'000'000'000));
  CHECK(converter.to_unix_ns(kStart.ticks) == kStartNs);
  CHECK(converter.to_unix_ns(kStart.ticks + 1'500'000'000) == kStartNs + 500'000'000);
  CHECK(converter.to_unix_ns(kStart.ticks + 3'000'000'000) == kStartNs + 1'000'000'000);
}

TEST_CASE("a tick before the start lies before it") {
  const TickConverter converter(kStart, after(2'000'000'000, 1'000'000'000));
  CHECK(converter.to_unix_ns(kStart.ticks - 2'000) == kStartNs - 1'000);
}

TEST_CASE("conversion stays within a nanosecond over a month, for fast and slow counters") {
  constexpr std::int64_t kMonthNs = 30LL * 86'400 * 1'000'000'000;
  for (const std::uint64_t ticks_per_second :
       {24'000'000ULL, 1'000'000'000ULL, 2'999'999'999ULL, 5'000'000'003ULL}) {
    CAPTURE(ticks_per_second);
    const std::uint64_t month_ticks = ticks_per_second * 30 * 86'400;
    const TickConverter converter(kStart, after(month_ticks, kMonthNs));
    CHECK(converter.to_unix_ns(kStart.ticks + month_ticks) == kStartNs + kMonthNs);
    CHECK(converter.to_unix_ns(kStart.ticks + (month_ticks / 2)) == kStartNs + (kMonthNs / 2));
  }
}

TEST_CASE("conversion is monotonic from tick to tick") {
  const TickConverter converter(kStart, after(2'345'678'901, 1'000'000'007));
  std::int64_t before = converter.to_unix_ns(kStart.ticks);
  for (std::uint64_t tick = 1; tick < 10'000; ++tick) {
    const std::int64_t now = converter.to_unix_ns(kStart.ticks + tick);
    REQUIRE(now >= before);
    before = now;
  }
}

TEST_CASE("a step of the wall clock bends no duration") {
  ClockPair latest = after(2'000'000'000, 1'000'000'000);
  latest.realtime_ns -= 3'600'000'000'000;
  const TickConverter converter(kStart, latest);
  CHECK(converter.to_unix_ns(kStart.ticks + 1'000'000) == kStartNs + 500'000);
}

TEST_CASE("pairs that give no rate fall back to the rate of this process") {
  const ClockPair now = torchprof::read_clock_pair();
  ClockPair later = torchprof::read_clock_pair();
  while (later.monotonic_ns - now.monotonic_ns < 4 * torchprof::kMinCalibrationNs) {
    later = torchprof::read_clock_pair();
  }
  const TickConverter same_pair(now, now);
  const std::int64_t elapsed_ns = same_pair.to_unix_ns(later.ticks) - now.realtime_ns;
  CHECK(static_cast<double>(elapsed_ns) ==
        doctest::Approx(static_cast<double>(later.monotonic_ns - now.monotonic_ns)).epsilon(0.05));
}

TEST_CASE("pairs from a damaged file convert to something") {
  constexpr auto kMaxTicks = std::numeric_limits<std::uint64_t>::max();
  constexpr auto kMaxNs = std::numeric_limits<std::int64_t>::max();
  constexpr auto kMinNs = std::numeric_limits<std::int64_t>::min();
  const std::vector<ClockPair> pairs{{.ticks = 0, .realtime_ns = kMinNs, .monotonic_ns = kMinNs},
                                     {.ticks = 1, .realtime_ns = kMaxNs, .monotonic_ns = kMaxNs},
                                     {.ticks = kMaxTicks, .realtime_ns = 0, .monotonic_ns = 0},
                                     {.ticks = kMaxTicks, .realtime_ns = kMaxNs, .monotonic_ns = kMaxNs}};
  for (const ClockPair& start : pairs) {
    for (const ClockPair& latest : pairs) {
      const TickConverter converter(start, latest);
      CHECK(converter.to_unix_ns(0) <= converter.to_unix_ns(kMaxTicks));
    }
  }
}

TEST_CASE("a clock pair reads the counter") {
  const std::uint64_t before = torchprof::ticks();
  const ClockPair pair = torchprof::read_clock_pair();
  CHECK(pair.ticks >= before);
  CHECK(pair.ticks <= torchprof::ticks());
  CHECK(pair.realtime_ns > 0);
}
