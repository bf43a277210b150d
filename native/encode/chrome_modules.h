// Calls of modules among Python frames, where modules themselves were not recorded.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "core/recording.h"
#include "core/tree.h"

namespace torchprof {

// Kineto calls the frame of nn.Module.__call__ `nn.Module: Linear_0`. Of the module it knows all; frames tell
// only whose `forward` was called: the class that defines it, not which instance, and not a class that
// inherits it.
class ModuleCalls {
 public:
  ModuleCalls(const Recording& recording, const Tree& tree);

  // The class of the module whose call a frame is; empty where it is none.
  [[nodiscard]] std::string_view class_of(std::uint64_t row) const;
  // A number that all calls of that class have.
  [[nodiscard]] std::int64_t number_of(std::uint64_t row) const;

 private:
  const StringPool& strings_;
  std::unordered_map<std::uint64_t, std::uint32_t> forward_;  // by row: name id of the `forward` it called
};

}  // namespace torchprof
