#include "core/track_reader.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace torchprof {

TrackReader::TrackReader(std::span<const std::byte> file, const std::vector<Chunk>& chunks,
                         const StringIds& strings, const StringPool& pool, ProblemCounts& problems)
    : problems_(problems), process_id_(static_cast<std::int64_t>(header_of(file).process_id)) {
  for (const Chunk& chunk : chunks) {
    if (chunk.kind == ChunkKind::kTracks) read_saved(records_of<TrackRecord>(file, chunk), strings, pool);
  }
  saved_count_ = static_cast<std::uint32_t>(tracks_.size());
  read_threads(file, chunks);
}

std::uint32_t TrackReader::of_thread(std::uint32_t ordinal) {
  const auto [entry, is_new] = of_ordinal_.try_emplace(ordinal, static_cast<std::uint32_t>(tracks_.size()));
  if (is_new) {
    problems_.add(ReadProblem::kUnknownThread);
    tracks_.emplace_back().process_id = process_id_;
  }
  return entry->second;
}

std::uint32_t TrackReader::saved(std::uint32_t index) {
  if (index < saved_count_) return index;
  problems_.add(ReadProblem::kUnknownTrack);
  if (!lost_track_) {
    lost_track_ = static_cast<std::uint32_t>(tracks_.size());
    tracks_.emplace_back().kind = TrackKind::kOther;
  }
  return *lost_track_;
}

std::uint32_t TrackReader::of_stream(std::int32_t device, std::int32_t context, std::int32_t stream) {
  const auto [entry, is_new] =
      of_stream_.try_emplace({device, context, stream}, static_cast<std::uint32_t>(tracks_.size()));
  if (is_new) {
    tracks_.push_back({.kind = TrackKind::kStream,
                       .process_id = process_id_,
                       .thread_id = stream,
                       .device = device,
                       .context = context,
                       .name = "stream " + std::to_string(stream)});
  }
  return entry->second;
}

std::uint32_t TrackReader::of_step(std::uint32_t index_or_ordinal) {
  return saved_count_ != 0 ? saved(index_or_ordinal) : of_thread(index_or_ordinal);
}

void TrackReader::read_saved(std::span<const TrackRecord> records, const StringIds& strings,
                             const StringPool& pool) {
  for (const TrackRecord& record : records) {
    const std::string_view name = pool.name(strings.find(record.name, problems_));
    const bool is_known_kind = record.kind <= static_cast<std::uint8_t>(TrackKind::kOther);
    tracks_.push_back({.kind = is_known_kind ? static_cast<TrackKind>(record.kind) : TrackKind::kOther,
                       .process_id = record.process_id,
                       .thread_id = record.thread_id,
                       .torch_thread_id = record.torch_thread_id,
                       .device = record.device,
                       .context = record.context,
                       .name = std::string(name.substr(0, kMaxTrackNameBytes))});
  }
}

void TrackReader::read_threads(std::span<const std::byte> file, const std::vector<Chunk>& chunks) {
  std::vector<const ThreadRecord*> threads;
  for (const Chunk& chunk : chunks) {
    if (chunk.kind != ChunkKind::kThreads) continue;
    for (const ThreadRecord& thread : records_of<ThreadRecord>(file, chunk)) threads.push_back(&thread);
  }
  std::stable_sort(threads.begin(), threads.end(),
                   [](const ThreadRecord* a, const ThreadRecord* b) { return a->ordinal < b->ordinal; });
  for (const ThreadRecord* thread : threads) {
    const auto track = static_cast<std::uint32_t>(tracks_.size());
    if (!of_ordinal_.try_emplace(thread->ordinal, track).second) {
      problems_.add(ReadProblem::kDuplicateThread);
      continue;
    }
    tracks_.push_back({.process_id = process_id_,
                       .thread_id = thread->os_thread_id,
                       .torch_thread_id = thread->torch_thread_id.load(std::memory_order_relaxed),
                       .name = std::string(thread->name, ::strnlen(thread->name, sizeof(thread->name)))});
  }
}

}  // namespace torchprof
