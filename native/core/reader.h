// From the bytes of a `.tprof` file, or of a capture that is still recording, to a Recording. Trusts
// nothing it reads: what is wrong with the header is an error, any other damage is a counted problem and
// the rest is read.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/recording.h"

namespace torchprof {

inline constexpr std::size_t kMaxMetadataLines = 65'536;

// Reads the file into memory rather than mapping it: a mapped file that somebody truncates kills the reader
// with SIGBUS, and copying costs a few hundredths of a microsecond an event. The file may be growing.
// Throws std::system_error when it cannot be read, std::runtime_error when it is not a recording.
[[nodiscard]] Recording open_recording(const std::string& path);

struct ReadOptions {
  // The clocks now, for a capture that is still recording: its last stored calibration may be old.
  std::optional<ClockPair> clock_now;
};

// Reads the memory of a capture, which other threads may be appending to: the recording holds what was
// committed when the call began. Inputs of ops are not copied; `owner` keeps them alive.
// Throws std::runtime_error when `file` is not a recording.
[[nodiscard]] Recording read_recording(std::span<const std::byte> file, std::shared_ptr<const void> owner,
                                       const ReadOptions& options = {});

}  // namespace torchprof
