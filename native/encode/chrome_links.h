// The pairs of events that a trace joins by flows.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/recording.h"

namespace torchprof {

struct ChromeFlow {
  std::uint64_t from;  // row where it starts: the launching call, the forward op
  std::uint64_t to;
  LinkType type;
};

// Launches: the recorded links, and by correlation id the call of any work that has none. Forward-backward:
// the recorded links, and what follows from sequence numbers. Others as recorded.
[[nodiscard]] std::vector<ChromeFlow> chrome_flows(const Recording& recording);

// Happens on a device because a call asked for it.
[[nodiscard]] constexpr bool is_launched(std::uint8_t kind) noexcept {
  switch (static_cast<EventKind>(kind)) {
    case EventKind::kKernel:
    case EventKind::kMemcpy:
    case EventKind::kMemset:
    case EventKind::kSync:
      return true;
    default:
      return false;
  }
}

[[nodiscard]] constexpr bool is_call(std::uint8_t kind) noexcept {
  return kind == static_cast<std::uint8_t>(EventKind::kRuntime) ||
         kind == static_cast<std::uint8_t>(EventKind::kDriver);
}

}  // namespace torchprof
