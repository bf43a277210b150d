#include "core/problems.h"

#include <string>

namespace torchprof {

std::string_view read_problem_name(ReadProblem problem) noexcept {
  switch (problem) {
    case ReadProblem::kFileCutOff:
      return "file_cut_off";
    case ReadProblem::kBadChunkHeader:
      return "bad_chunk_header";
    case ReadProblem::kUnknownChunkKind:
      return "unknown_chunk_kind";
    case ReadProblem::kWrongRecordSize:
      return "wrong_record_size";
    case ReadProblem::kCommittedTooLarge:
      return "committed_too_large";
    case ReadProblem::kBadString:
      return "bad_string";
    case ReadProblem::kDuplicateString:
      return "duplicate_string";
    case ReadProblem::kUnknownString:
      return "unknown_string";
    case ReadProblem::kDuplicateThread:
      return "duplicate_thread";
    case ReadProblem::kUnknownThread:
      return "unknown_thread";
    case ReadProblem::kUnknownTrack:
      return "unknown_track";
    case ReadProblem::kUnknownEventKind:
      return "unknown_event_kind";
    case ReadProblem::kNegativeDuration:
      return "negative_duration";
    case ReadProblem::kTimeOutOfRange:
      return "time_out_of_range";
    case ReadProblem::kPayloadOutOfRange:
      return "payload_out_of_range";
    case ReadProblem::kStepLinksOutOfRange:
      return "step_links_out_of_range";
    case ReadProblem::kLinkTargetMissing:
      return "link_target_missing";
    case ReadProblem::kSideRowWithoutEvent:
      return "side_row_without_event";
    case ReadProblem::kDamagedArguments:
      return "damaged_arguments";
    case ReadProblem::kRowsOutOfOrder:
      return "rows_out_of_order";
    case ReadProblem::kMetadataTooLong:
      return "metadata_too_long";
    case ReadProblem::kClockNotCalibrated:
      return "clock_not_calibrated";
    case ReadProblem::kCount:
      break;
  }
  return {};
}

std::vector<Problem> ProblemCounts::occurred() const {
  std::vector<Problem> problems;
  for (std::size_t index = 0; index < counts_.size(); ++index) {
    if (counts_[index] == 0) continue;
    problems.push_back(
        {.name = std::string(read_problem_name(static_cast<ReadProblem>(index))), .count = counts_[index]});
  }
  return problems;
}

}  // namespace torchprof
