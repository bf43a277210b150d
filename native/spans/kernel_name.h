// Short names of kernels, for spans and metrics alike.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace torchprof {

inline constexpr std::size_t kMaxKernelNameCharacters = 255;

// The qualified name of the function that ran: demangled, without return type, template arguments, parameters
// and anonymous namespaces, and without what differs from one build or run to the next: hashes, addresses,
// long numbers, and the specialization that Triton appends (`_0d1d2de`). Of a function that only runs what
// its first template argument says (`cutlass::Kernel<cutlass_80_tensorop_...>`), the name is that argument's.
//
// Takes valid UTF-8. A name that was made short stays as it is; empty only for an empty one.
[[nodiscard]] std::string kernel_name(std::string_view recorded);

}  // namespace torchprof
