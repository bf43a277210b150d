// Mends slices that outlast what they lie in, as times rounded to microseconds and lost ends leave them.
#pragma once

#include <cstdint>

#include "core/recording.h"

namespace torchprof {

struct OverrunLimits {
  // A slice that outlasts the one it began in by no more than this was rounded: it is cut to fit.
  std::int64_t rounding_ns = 0;
  // On a stream, work that lasts longer than this into the work after it has a wrong end: it is cut there.
  std::int64_t stream_ns = 0;
};

struct OverrunCounts {
  std::uint64_t rounded = 0;     // cut to the end of what they lie in
  std::uint64_t overflowed = 0;  // cut to the start of what follows on their stream
  std::uint64_t crossing = 0;    // left as they are: they cross the slice they began in
};

// Needs rows in order, and keeps them so. Asynchronous events are left alone.
OverrunCounts mend_overruns(Recording& recording, const OverrunLimits& limits);

}  // namespace torchprof
