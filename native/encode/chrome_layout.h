// Where each event goes, so that on no line of the trace one slice crosses another.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/recording.h"

namespace torchprof {

// A slice of its track, or of one of the lanes beside it; or an asynchronous event, a line by itself.
inline constexpr std::uint8_t kAsynchronous = 0xFF;
inline constexpr std::uint8_t kMaxLanes = 64;
inline constexpr std::uint8_t kOnTrack = 0;
inline constexpr std::uint8_t kBesideTrack = 1;  // of a thread: its steps that cross slices

// What torch's profiler calls steps; a number follows.
inline constexpr std::string_view kStepPrefix = "ProfilerStep#";

struct ChromeLayout {
  std::vector<std::uint8_t> lane;   // by row: kOnTrack, a lane from 1 on, or kAsynchronous
  std::vector<std::uint8_t> lanes;  // by track: how many there are beside the track
  // By step: kOnTrack, kBesideTrack when a step of its track crosses a slice, kAsynchronous when it begins
  // before the step in front of it ended.
  std::vector<std::uint8_t> step_lane;
};

// Asynchronous are the events that are flagged so or ended on another thread, and of two that cross on a
// thread the user's scope, else the one that began later; but steps go beside their track. What crosses on a
// stream goes to a lane, because readers look for work of devices among slices only.
[[nodiscard]] ChromeLayout lay_out(const Recording& recording);

}  // namespace torchprof
