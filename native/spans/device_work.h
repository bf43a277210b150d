// Who launched what, and the CPU and device time of each event with all it encloses.
#pragma once

#include <cstdint>
#include <vector>

#include "core/recording.h"
#include "core/tree.h"
#include "spans/placement.h"

namespace torchprof {

inline constexpr std::uint32_t kNoEvent = UINT32_MAX;

// Of each event on a device: the event that launched it, by explicit link or by correlation id.
[[nodiscard]] std::vector<std::uint32_t> find_launchers(const Recording& recording,
                                                        const Placement& placement);

// Sums over subtrees, by node. Host nodes and roots count device work by who launched it (a root also
// what nobody is known to have launched); device nodes count their own.
struct SubtreeWork {
  std::vector<std::int64_t> cpu_ns;
  std::vector<std::int64_t> device_ns;
  std::vector<std::uint32_t> kernels;
};
[[nodiscard]] SubtreeWork sum_subtrees(const Recording& recording, const Tree& tree,
                                       const Placement& placement,
                                       const std::vector<std::uint32_t>& launchers);

// What is known of an event as work on a device, nullptr = nothing.
[[nodiscard]] const DeviceRecord* find_device_record(const Recording& recording, std::uint64_t row) noexcept;

// Time an event itself occupies a device, 0 for all but kernels, copies and memsets.
[[nodiscard]] std::int64_t device_time_ns(const EventTable& events, std::size_t row) noexcept;

}  // namespace torchprof
