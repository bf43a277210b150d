// What the tracks of a recording are called in a trace: process and thread ids that no two lines share.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/recording.h"
#include "encode/chrome_layout.h"
#include "encode/chrome_text.h"

namespace torchprof {

// Names of processes by id.
using ProcessNames = std::map<std::int64_t, std::string>;

// Threads keep their ids, streams are threads of a process that is their device, as Kineto has it. A thread
// whose id is taken gets one that is free. Lanes beside a stream, and streams whose id is taken, are called
// "stream 7", with more blanks the more there are: an importer that reads numbers out of such names finds
// the stream again. Steps that cross slices lie on a thread of their own with a free id.
class ChromeTracks {
 public:
  ChromeTracks(const Recording& recording, const ChromeLayout& layout);

  // `"pid":1,"tid":2` of a lane, see ChromeLayout.
  [[nodiscard]] const std::string& fields(std::uint32_t track, std::uint8_t lane) const {
    return fields_[track][lane];
  }

  // The `tid` of a track itself, in JSON.
  [[nodiscard]] std::string_view thread(std::uint32_t track) const;

  // Names and order of processes and threads.
  void write_metadata(ChromeText& text, const ProcessNames& process_names) const;

 private:
  std::vector<std::vector<std::string>> fields_;
  const Recording& recording_;
  const ChromeLayout& layout_;
};

}  // namespace torchprof
