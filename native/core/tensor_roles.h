// What tensors are to the program: parameters, their gradients, optimizer state, buffers. Noted by the
// program's side at moments where its objects hold them; an analysis joins the notes to allocations by
// address and time.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/chunk_index.h"
#include "core/problems.h"
#include "core/recording.h"
#include "core/string_reader.h"
#include "core/time_reader.h"

namespace torchprof {

[[nodiscard]] std::vector<TensorRoleRecord> read_tensor_roles(std::span<const std::byte> file,
                                                              const std::vector<Chunk>& chunks,
                                                              const StringIds& strings, TimeReader& times,
                                                              ProblemCounts& problems);

}  // namespace torchprof
