// The helper thread: brings the memory of recordings in before recording threads need it, and refreshes
// the clock calibration in their headers. One a process, alive while something records.
//
// The first touch of a page costs a fault (0.5 us in memory, several in a file) that a recording thread
// would otherwise take inside an op.
#pragma once

#include "core/arena.h"

namespace torchprof {

class Populator {
 public:
  // Starts the thread with the first recording. Without a thread (none can be created) recording works,
  // and its threads take the faults themselves.
  static void add(Arena& arena) noexcept;
  // When it returns the thread touches `arena` no more; ends the thread with the last recording.
  static void remove(Arena& arena) noexcept;
  // Asks for a round now. Any thread, no lock.
  static void wake() noexcept;

  // In the child of a fork: the thread is gone, and so are the recordings.
  static void reset_after_fork() noexcept;
};

// Writes the pair a reader calibrates with, under the sequence lock of the header. False, and nothing
// written, while the capture is too young for a usable rate.
bool refresh_calibration(FileHeader& header) noexcept;

}  // namespace torchprof
