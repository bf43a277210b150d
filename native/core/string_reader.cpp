#include "core/string_reader.h"

#include <algorithm>
#include <string_view>

namespace torchprof {
namespace {

constexpr std::uint64_t aligned(std::uint64_t bytes) noexcept {
  return (bytes + kPayloadAlignBytes - 1) / kPayloadAlignBytes * kPayloadAlignBytes;
}

}  // namespace

StringIds read_strings(std::span<const std::byte> file, const std::vector<Chunk>& chunks, StringPool& pool,
                       ProblemCounts& problems) {
  // Ids are dense, so none can be larger than the number of entries that fit into the file. A bound on the
  // table that holds whatever the ids claim.
  std::uint64_t max_id = 0;
  for (const Chunk& chunk : chunks) {
    if (chunk.kind == ChunkKind::kStrings) max_id += chunk.count / sizeof(StringEntry);
  }

  StringIds ids;
  for (const Chunk& chunk : chunks) {
    if (chunk.kind != ChunkKind::kStrings) continue;
    std::span<const std::byte> rest = file.subspan(chunk.data_offset, chunk.count);
    while (rest.size() >= sizeof(StringEntry)) {
      const StringEntry& entry = *reinterpret_cast<const StringEntry*>(rest.data());
      const std::uint64_t text_bytes = std::uint64_t{entry.name_bytes} + entry.overload_bytes;
      if (text_bytes > rest.size() - sizeof(StringEntry)) break;
      const char* const text = reinterpret_cast<const char*>(rest.data() + sizeof(StringEntry));
      const std::uint64_t entry_bytes = aligned(sizeof(StringEntry) + text_bytes);
      rest = rest.subspan(std::min<std::uint64_t>(entry_bytes, rest.size()));
      if (entry.id == 0 || entry.id > max_id) {
        problems.add(ReadProblem::kBadString);
        continue;
      }
      if (entry.id >= ids.pool_ids_.size()) ids.pool_ids_.resize(entry.id + 1);
      if (ids.pool_ids_[entry.id] != 0) {
        problems.add(ReadProblem::kDuplicateString);
        continue;
      }
      ids.pool_ids_[entry.id] = pool.add(std::string_view(text, entry.name_bytes),
                                         std::string_view(text + entry.name_bytes, entry.overload_bytes));
    }
    if (!rest.empty()) problems.add(ReadProblem::kBadString);
  }
  return ids;
}

}  // namespace torchprof
