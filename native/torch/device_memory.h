// Reports what CUDA's caching allocator does, where the bridge is compiled for a torch that has one.
#pragma once

#include <cstdint>

namespace torchprof::bridge {

// Returns a code of bridge_abi.h.
int enable_device_memory(std::uint32_t slot);

}  // namespace torchprof::bridge
