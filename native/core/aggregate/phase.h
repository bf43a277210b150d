// The part of a training step that an operator belongs to.
//
//   backward   inside an operator of scope BACKWARD_FUNCTION, or inside one of the autograd engine's own
//   optimizer  inside `Optimizer.step#...` or `Optimizer.zero_grad#...`, the user scopes of torch.optim
//   forward    otherwise, when the operator has an autograd sequence number, or while the program says that
//              it evaluates or infers
//   other      the rest
//
// What an operator encloses on its thread has its phase, unless it begins a backward or an optimizer step.
#pragma once

#include <cstddef>
#include <cstdint>

namespace torchprof {

enum class Phase : std::uint8_t { kOther = 0, kForward = 1, kBackward = 2, kOptimizer = 3 };
inline constexpr std::size_t kPhases = 4;

}  // namespace torchprof
