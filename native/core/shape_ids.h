// The shapes of an op's inputs as one number, so that ops can be grouped by them without strings.
#pragma once

#include <cstdint>
#include <vector>

#include "core/recording.h"

namespace torchprof {

struct ShapeIds {
  // One an event. Events with equal tensor sizes in equal places share an id; 0 = no inputs recorded (or
  // damaged ones). Dense, in order of first appearance.
  std::vector<std::uint32_t> by_row;
  std::vector<std::uint64_t> example_row;  // by id - 1: a row that has these shapes
  std::uint64_t damaged_inputs = 0;
};

[[nodiscard]] ShapeIds input_shape_ids(const Recording& recording);

}  // namespace torchprof
