// Reads the string chunks of a recording into a StringPool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/chunk_index.h"
#include "core/recording.h"

namespace torchprof {

// From the ids of a file to those of its StringPool: they differ where the file's have holes.
class StringIds {
 public:
  // 0, the empty string, and a problem counted, for an id that the file does not define.
  [[nodiscard]] std::uint32_t find(std::uint32_t file_id, ProblemCounts& problems) const noexcept {
    const std::uint32_t pool_id = file_id < pool_ids_.size() ? pool_ids_[file_id] : 0;
    if (pool_id == 0 && file_id != 0) problems.add(ReadProblem::kUnknownString);
    return pool_id;
  }

 private:
  friend StringIds read_strings(std::span<const std::byte> file, const std::vector<Chunk>& chunks,
                                StringPool& pool, ProblemCounts& problems);
  std::vector<std::uint32_t> pool_ids_;  // by file id; 0 = not defined
};

StringIds read_strings(std::span<const std::byte> file, const std::vector<Chunk>& chunks, StringPool& pool,
                       ProblemCounts& problems);

}  // namespace torchprof
