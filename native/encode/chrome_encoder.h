// A recording as Chrome trace JSON, with the categories and arguments that readers of Kineto's traces expect.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/recording.h"
#include "encode/chrome_text.h"
#include "encode/chrome_tracks.h"

namespace torchprof {

struct ChromeCounts {
  std::uint64_t slices = 0;
  std::uint64_t async_events = 0;  // a begin and an end each
  std::uint64_t instants = 0;
  std::uint64_t flows = 0;  // a start and an end each
  std::uint64_t steps = 0;  // of those that no event stands for
  std::uint64_t counters = 0;
  std::uint64_t size_bytes = 0;
};

// What a trace is written for.
struct ChromeOptions {
  // Members of the top object, as in `"schemaVersion":1`; may be empty.
  std::string_view header;
  ProcessNames process_names;
  // The categories of 2021, the only ones that TensorBoard's plugin knows: of calls, of forward-backward
  // flows, and of the scopes that torch puts around DataLoaders and optimizers.
  bool categories_of_2021 = false;
  // Kinds of events that are not written, nor flows from or to them. kUser takes steps along, kOther memory.
  std::vector<std::uint8_t> left_out_kinds;
  // By row of Recording::devices, NaN = not known; those of the recording where it has another length.
  std::vector<float> occupancy_percent;
};

// Times count from the whole second before the first one. What `sink` throws comes through.
ChromeCounts encode_chrome(const Recording& recording, const ChromeOptions& options, ChromeText::Sink sink);

}  // namespace torchprof
