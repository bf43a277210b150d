// The steps of a recording, with the contexts they are linked to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/chunk_index.h"
#include "core/event_reader.h"
#include "core/recording.h"
#include "core/time_reader.h"
#include "core/track_reader.h"

namespace torchprof {

// Lists of spans, of steps and of contexts. Bounds what is copied: many records of a damaged file may claim
// the same large payload.
class SpanLinkReader {
 public:
  SpanLinkReader(std::span<const std::byte> file, const PayloadRanges& payload, ProblemCounts& problems)
      : file_(file), payload_(payload), problems_(problems), left_(file.size() / sizeof(SpanContext)) {}

  [[nodiscard]] std::vector<SpanContext> read(std::uint32_t payload_units, std::uint32_t count);

 private:
  std::span<const std::byte> file_;
  const PayloadRanges& payload_;
  ProblemCounts& problems_;
  std::uint64_t left_;
};

// In order of start. Comes after everything else with a time: open steps end at times.last_ns().
std::vector<Step> read_steps(std::span<const std::byte> file, const std::vector<Chunk>& chunks,
                             const PayloadRanges& payload, TimeReader& times, TrackReader& tracks,
                             ProblemCounts& problems);

}  // namespace torchprof
