// Where each event goes, so that on no line of the trace one slice crosses another.
#pragma once

#include <cstdint>
#include <vector>

#include "core/recording.h"

namespace torchprof {

// A slice of its track, or of one of the lanes beside it; or an asynchronous event, a line by itself.
inline constexpr std::uint8_t kAsynchronous = 0xFF;
inline constexpr std::uint8_t kMaxLanes = 64;

struct ChromeLayout {
  std::vector<std::uint8_t> lane;   // by row: 0 = the track itself, or kAsynchronous
  std::vector<std::uint8_t> lanes;  // by track: how many there are beside the track
  // By step: kOnTrack, kBesideTrack when a step of its track crosses a slice, kAsynchronous when it begins
  // before the step in front of it ended.
  std::vector<std::uint8_t> step_lane;
};
inline constexpr std::uint8_t kOnTrack = 0;
inline constexpr std::uint8_t kBesideTrack = 1;

// Asynchronous are the events that are flagged so or ended on another thread, and of two that cross on a
// thread the user's scope, else the one that began later. What crosses on a stream goes to a lane, because
// readers look for work of devices among slices only.
[[nodiscard]] ChromeLayout lay_out(const Recording& recording);

}  // namespace torchprof
