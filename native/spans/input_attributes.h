// The recorded inputs of an op as attribute values.
#pragma once

#include <cstdint>
#include <string>

#include "core/recording.h"

namespace torchprof {

// Each a JSON array with one item an argument, of at most kMaxValueBytes; empty when there is nothing to
// tell. For add(x of shape 2x3, 1.5):  shapes [[2,3],null]  types ["float32","float"]
// strides [[3,1],null]  values [null,1.5].
struct InputTexts {
  std::string shapes;
  std::string types;
  std::string strides;  // empty when no tensor has any
  std::string values;   // empty when all arguments are tensors or None
  bool cut = false;     // something was left out: while recording or to fit
};
[[nodiscard]] InputTexts describe_inputs(const Recording& recording, std::uint64_t row);

// `float32` for c10::ScalarType 6; `dtype99` for one not known.
[[nodiscard]] std::string dtype_name(std::uint8_t dtype);

}  // namespace torchprof
