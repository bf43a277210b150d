// The hot path of counting: what runs at the start and at the end of every operator that is counted. As safe
// as the hooks of recordings (op_hooks.h), and apart from them: neither costs the other a branch.
#pragma once

#include <cstdint>

namespace torchprof {

// Entries of torchprof_core_table. `flags`: TORCHPROF_COUNT_*.
void count_start(const void* key, const char* name, std::uint8_t flags) noexcept;
void count_end(const void* key, std::uint8_t is_async) noexcept;

}  // namespace torchprof
