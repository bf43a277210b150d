// What a reader met in a damaged file and went on from, by name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/recording.h"

namespace torchprof {

enum class ReadProblem : std::uint8_t {
  kFileCutOff,           // the file ends before its used_bytes, or a chunk does before its size
  kBadChunkHeader,       // a run of granules that belong to no chunk
  kUnknownChunkKind,     // a chunk of a kind this version does not know
  kWrongRecordSize,      // a chunk whose records have another size than the format's
  kCommittedTooLarge,    // a chunk that claims more records than it holds
  kBadString,            // an entry that runs over its chunk, or whose id cannot be
  kDuplicateString,      // an id given out twice; the first one counts
  kUnknownString,        // an event or a track whose name is not there
  kDuplicateThread,      // an ordinal given out twice; the first one counts
  kUnknownThread,        // records of a thread that is not described
  kUnknownTrack,         // an event or a step on a track that is not there
  kUnknownEventKind,     // taken for EventKind::kOther
  kNegativeDuration,     // an end before its start; taken for the start
  kTimeOutOfRange,       // beyond kMaxTimeNs; clamped
  kPayloadOutOfRange,    // inputs that lie in no payload chunk; left out
  kStepLinksOutOfRange,  // links of a step that lie in no payload chunk; left out
  kLinkTargetMissing,    // a link from or to an event that is not there; left out
  kSideRowWithoutEvent,  // what a device, counter or memory table says of an event that is not there; left
                         // out
  kDamagedArguments,     // arguments that are no JSON object, or too long; left out
  kRowsOutOfOrder,       // rows had to be sorted (counted once a file)
  kMetadataTooLong,      // more metadata lines than kMaxMetadataLines; the rest is left out
  kClockNotCalibrated,   // no usable pair of clock readings: durations are only estimated
  kCount,
};

// snake_case name, as it stands in Recording::problems.
[[nodiscard]] std::string_view read_problem_name(ReadProblem problem) noexcept;

class ProblemCounts {
 public:
  void add(ReadProblem problem, std::uint64_t count = 1) noexcept {
    counts_[static_cast<std::size_t>(problem)] += count;
  }
  // Those that occurred, in the order of the enumeration.
  [[nodiscard]] std::vector<Problem> occurred() const;

 private:
  std::array<std::uint64_t, static_cast<std::size_t>(ReadProblem::kCount)> counts_{};
};

}  // namespace torchprof
