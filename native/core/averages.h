// The averages table: calls, total and self time of events grouped by name.
#pragma once

#include <cstdint>
#include <vector>

#include "core/recording.h"
#include "core/tree.h"

namespace torchprof {

struct TimeRange {
  std::int64_t start_ns;
  std::int64_t end_ns;  // exclusive
};

struct AveragesOptions {
  bool by_overload = false;
  bool by_shapes = false;
  // Only events that start within one of `ranges`.
  bool only_ranges = false;
  std::vector<TimeRange> ranges;
};

// One row a group, in order of first appearance.
struct Averages {
  std::vector<std::uint32_t> name;       // StringPool id; its overload counts only with by_overload
  std::vector<std::uint8_t> kind;        // EventKind
  std::vector<std::uint64_t> first_row;  // an event of the group
  std::vector<std::uint64_t> calls;
  std::vector<std::int64_t> total_ns;  // an event inside one of its own group adds nothing here
  std::vector<std::int64_t> self_ns;
  // Allocated minus freed, counted as the times are. Empty where the recording has no memory.
  std::vector<std::int64_t> host_bytes;
  std::vector<std::int64_t> self_host_bytes;
  std::vector<std::int64_t> device_bytes;
  std::vector<std::int64_t> self_device_bytes;
  std::uint64_t damaged_inputs = 0;  // events left without shapes
};

[[nodiscard]] Averages build_averages(const Recording& recording, const Tree& tree,
                                      const AveragesOptions& options);

}  // namespace torchprof
