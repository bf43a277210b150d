// Reports what the CPU allocator of torch does to the capture slots that want to know.
#pragma once

#include <cstdint>

namespace torchprof::bridge {

// Both return a code of bridge_abi.h.
int enable_memory(std::uint32_t slot);
int disable_memory(std::uint32_t slot);

// Tells the slots that want to know.
void report_memory(std::uint8_t action, std::uint64_t address, std::uint64_t size_bytes,
                   std::uint8_t device_type, std::int32_t device) noexcept;

}  // namespace torchprof::bridge
