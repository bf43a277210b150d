// Finds the chunks of a recording and how much of each may be read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/layout.h"
#include "core/problems.h"

namespace torchprof {

// A chunk whose records lie within the file.
struct Chunk {
  ChunkKind kind;
  std::uint32_t thread;
  std::uint32_t sequence;
  std::uint64_t data_offset;  // of the first record, from the start of the file
  std::uint64_t count;        // committed records; bytes in a chunk of bytes
};

// In order of offset. `file` holds a valid FileHeader and is aligned to 8 bytes; other threads may be
// appending to it.
[[nodiscard]] std::vector<Chunk> index_chunks(std::span<const std::byte> file, ProblemCounts& problems);

template <typename Record>
[[nodiscard]] std::span<const Record> records_of(std::span<const std::byte> file,
                                                 const Chunk& chunk) noexcept {
  return {reinterpret_cast<const Record*>(file.data() + chunk.data_offset), chunk.count};
}

[[nodiscard]] inline const FileHeader& header_of(std::span<const std::byte> file) noexcept {
  return *reinterpret_cast<const FileHeader*>(file.data());
}

}  // namespace torchprof
