// Python functions that are told of ops: what draws ranges for other tools.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

namespace torchprof {

// Calls `begin(key, text)` at the start of every op of a slot's callbacks and `end(key)` at its end, on its
// thread and under the GIL; see range_text.h for the text. What they raise is ignored. One at a time: returns
// the slot, or -1 when there is one already or no slot is free.
int start_op_ranges(nanobind::object begin, nanobind::object end);
void stop_op_ranges(std::uint32_t slot);
// In the child of a fork nobody listens.
void forget_op_ranges();

}  // namespace torchprof
