// Reads what traces said of events that nothing else holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/chunk_index.h"
#include "core/recording.h"
#include "core/string_reader.h"

namespace torchprof {

// Rows of events that are not among the `events_count` of the file, and texts that are no JSON object, are
// left out and counted; `event` still counts in the order of the file.
[[nodiscard]] std::vector<ArgumentsRecord> read_arguments(std::span<const std::byte> file,
                                                          const std::vector<Chunk>& chunks,
                                                          std::uint64_t events_count,
                                                          const StringIds& strings, const StringPool& pool,
                                                          ProblemCounts& problems);

}  // namespace torchprof
