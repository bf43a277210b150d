// Why something was not counted, or not under its name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace torchprof {

enum class CountDrop : std::uint8_t {
  kNoMemory,       // for a thread's counts or a name's
  kStackTooDeep,   // more open operators on a thread than kMaxOpenCountedOps
  kNameTableFull,  // counted under the name that stands for all that found no room
  kUnmatchedEnd,   // an end whose start is not known
  kInterrupted,    // still open when its thread began an op under another weight
};
inline constexpr std::size_t kCountDrops = 5;
using CountDrops = std::array<std::uint64_t, kCountDrops>;

inline constexpr std::array<std::string_view, kCountDrops> kCountDropNames{
    "no_memory", "stack_too_deep", "name_table_full", "unmatched_end", "interrupted"};

}  // namespace torchprof
