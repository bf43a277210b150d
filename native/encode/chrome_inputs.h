// The inputs of an op as the four lists of strings and numbers that Kineto writes.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "encode/chrome_text.h"

namespace torchprof {

struct ChromeInputs {
  std::string sizes;     // "Input Dims"
  std::string types;     // "Input type", C++ names
  std::string strides;   // "Input Strides"; empty when none are known
  std::string concrete;  // "Concrete Inputs"; empty when no argument has a value
};

// Item n of each list is argument n; arguments after damage are missing.
[[nodiscard]] ChromeInputs describe_for_chrome(std::span<const std::uint8_t> encoded_inputs);

}  // namespace torchprof
