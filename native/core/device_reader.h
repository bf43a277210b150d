// Makes events of what a capture wrote of a device, as an imported trace has them: calls on the tracks of
// their threads, work on tracks of streams, DeviceRecords beside both, and links from calls to what they
// launched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/chunk_index.h"
#include "core/event_reader.h"
#include "core/recording.h"
#include "core/string_reader.h"
#include "core/time_reader.h"
#include "core/track_reader.h"

namespace torchprof {

struct DeviceRows {
  std::vector<DeviceRecord> devices;
  LinkTable links;  // of kind kLaunch
};

// Adds rows to `events`, which has read all others. Rows are numbers of events in the order in which they
// were added.
//
// Work belongs to the first call with its correlation id; where that call was not recorded, to the op that
// made it. The two clocks may be a little apart: a call that an op is known to have made lies within it.
[[nodiscard]] DeviceRows read_device(std::span<const std::byte> file, const std::vector<Chunk>& chunks,
                                     const StringIds& strings, TimeReader& times, TrackReader& tracks,
                                     EventReader& events, ProblemCounts& problems);

}  // namespace torchprof
