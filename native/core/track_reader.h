// The tracks of a recording: those a saved one lists, and one for each thread of a capture.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "core/chunk_index.h"
#include "core/recording.h"
#include "core/string_reader.h"

namespace torchprof {

class TrackReader {
 public:
  TrackReader(std::span<const std::byte> file, const std::vector<Chunk>& chunks, const StringIds& strings,
              const StringPool& pool, ProblemCounts& problems);

  // The track of a thread of a capture; made up, and counted, where the file does not describe the thread:
  // its events are worth more than its name.
  [[nodiscard]] std::uint32_t of_thread(std::uint32_t ordinal);
  // The track of a saved event; one made-up track, and counted, for all that the file does not list.
  [[nodiscard]] std::uint32_t saved(std::uint32_t index);
  // The track of a device's stream, made when it is new.
  [[nodiscard]] std::uint32_t of_stream(std::int32_t device, std::int32_t context, std::int32_t stream);
  // The track of a step: an index in a saved recording, a thread's ordinal in a capture.
  [[nodiscard]] std::uint32_t of_step(std::uint32_t index_or_ordinal);

  [[nodiscard]] std::vector<Track> take() { return std::move(tracks_); }

 private:
  void read_saved(std::span<const TrackRecord> records, const StringIds& strings, const StringPool& pool);
  void read_threads(std::span<const std::byte> file, const std::vector<Chunk>& chunks);

  ProblemCounts& problems_;
  std::int64_t process_id_;
  std::vector<Track> tracks_;
  std::uint32_t saved_count_ = 0;
  std::optional<std::uint32_t> lost_track_;
  std::unordered_map<std::uint32_t, std::uint32_t> of_ordinal_;
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::uint32_t> of_stream_;
};

}  // namespace torchprof
