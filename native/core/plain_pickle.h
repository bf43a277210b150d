// Whether a Python pickle is plain data: text, numbers, lists, tuples and dictionaries, nothing that names
// code.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace torchprof {

// Walks the opcodes of a pickle of protocol 0 to 5 without making any object, and says what stands in the way
// of unpickling it, in one line; empty: nothing does. What passes
// - uses no opcode that names or calls anything, and is no stream of several pickles,
// - fills lists with list opcodes, and dictionaries, whose keys are text or integers of 32 bits, with theirs,
// - needs about `max_memory_bytes` as Python objects at most, its table of shared objects included.
// Such keys leave no room for hashes made to collide, nor for a hash that recurses without end.
[[nodiscard]] std::string why_not_plain_pickle(std::span<const std::uint8_t> pickle,
                                               std::uint64_t max_memory_bytes);

}  // namespace torchprof
