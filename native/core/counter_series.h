// What the overload name of a counter says of its values.
#pragma once

#include <string_view>

namespace torchprof {

// What was counted: over an event or, without one, since the reading of that name and track before it.
inline constexpr std::string_view kCounted = "count";
// The same, scaled up: the counter had its turn for a part of the time only, as it had to share the
// processor's.
inline constexpr std::string_view kEstimated = "estimate";

// Values of any other series are levels, or were read by somebody else.
[[nodiscard]] constexpr bool is_counted(std::string_view series) noexcept {
  return series == kCounted || series == kEstimated;
}

}  // namespace torchprof
