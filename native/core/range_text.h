// What an op is called in the ranges that other tools draw: `aten::mm, seq = 3, sizes = [[2, 3], [3, 4]]`.
#pragma once

#include <string>

#include "torch/bridge_abi.h"

namespace torchprof {

// `seq` is the number of an op whose backward may follow, `stashed seq` that of the op it is the backward of.
// Sizes are there when the op has inputs: of each argument, those of lists of tensors one by one, `[]` of
// what is no tensor.
[[nodiscard]] std::string range_text(const torchprof_op_start& op);

}  // namespace torchprof
