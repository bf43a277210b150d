// Who encloses whom: parents and self time of every event, from times alone.
#pragma once

#include <cstdint>
#include <vector>

#include "core/recording.h"

namespace torchprof {

struct Tree {
  std::vector<std::int64_t> parent;   // row, always a smaller one; -1 = none
  std::vector<std::int64_t> self_ns;  // duration minus what synchronous children cover of it; >= 0
};

// The parent of an event is the innermost event of its track that began no later and ends no earlier.
// Events that are async or ended on another thread are nobody's parent and take no self time from theirs:
// what happens on the thread meanwhile is not theirs. Needs rows in order; linear in their number but for
// async events, which cost a binary search in the stack each.
[[nodiscard]] Tree build_tree(const Recording& recording);

[[nodiscard]] constexpr bool is_async(std::uint16_t flags) noexcept {
  return (flags & (kFlagAsync | kFlagOtherThread)) != 0;
}

}  // namespace torchprof
