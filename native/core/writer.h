// Saves a Recording as a `.tprof` file.
#pragma once

#include <string>

#include "core/recording.h"

namespace torchprof {

// Writes a temporary file beside `path` (mode 0600) and renames it: there is either the whole new file or
// what was there before, and nothing else is left behind. Times become unix ns, so the file's clock source
// is ClockSource::kUnixNs whatever the recording's was.
// Throws std::system_error when writing fails, std::length_error past what the format can address.
void save_recording(const Recording& recording, const std::string& path);

}  // namespace torchprof
