// The ids by which readers of a trace join calls and device work to ops.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/recording.h"
#include "core/tree.h"
#include "encode/chrome_links.h"

namespace torchprof {

// "External id" of each event. Calls and device work keep the one they were recorded with; the op around
// such a call gets that id too, all other ops get ids beyond all recorded ones. Work without a recorded id
// takes the one of the op that its call was made in.
class ExternalIds {
 public:
  ExternalIds(const Recording& recording, const Tree& tree, std::span<const ChromeFlow> flows);

  static constexpr std::int64_t kNone = -1;
  [[nodiscard]] std::int64_t of(std::uint64_t row) const;
  // Of the n-th step, which are no events.
  [[nodiscard]] std::int64_t of_step(std::uint64_t index) const;

 private:
  void give_to_enclosing_ops();
  [[nodiscard]] std::uint64_t enclosing_op(std::uint64_t row) const;

  const EventTable& events_;
  const Tree& tree_;
  std::int64_t first_free_ = 1;
  std::unordered_map<std::uint64_t, std::int64_t> recorded_;  // by row
  std::unordered_map<std::uint64_t, std::uint64_t> launcher_;
};

}  // namespace torchprof
