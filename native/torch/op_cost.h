// What counting an op costs on this machine is measured with real ops, as most of it is torch's own part.
#pragma once

#include <cstdint>

namespace torchprof::bridge {

// Runs a small op `count` times on the calling thread, and returns the nanoseconds that took; 0 when torch
// refused it. Callbacks hear of it as of any op.
std::uint64_t time_ops(std::uint32_t count);

}  // namespace torchprof::bridge
