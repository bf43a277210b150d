// What tells this process from every other, also from its own forks.
#pragma once

#include <cstdint>

namespace torchprof {

// Random and never zero; the base of span ids. A forked child has its own.
std::uint64_t process_instance() noexcept;

// How many forks lie between this process and the one that loaded the library. Memory of a recording that
// was active in an earlier generation is not mapped in this one.
std::uint64_t fork_generation() noexcept;

// In the child of a fork.
void renew_process_identity() noexcept;

}  // namespace torchprof
