// The inputs of one op as Python values.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <span>

namespace torchprof::bindings {

// A list with an item an argument: plain values as they are, everything else as a tuple that starts with
// its InputTag (recording/inputs.py gives those their types). Throws std::invalid_argument when the bytes
// are damaged.
nanobind::list decoded_inputs(std::span<const std::uint8_t> encoded);

}  // namespace torchprof::bindings
