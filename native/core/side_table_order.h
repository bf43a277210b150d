// The order of a recording's events and of the tables beside them: devices and arguments by event, counters
// and memory by time.
#pragma once

#include <cstdint>
#include <vector>

#include "core/recording.h"

namespace torchprof {

// `new_rows`: the new row of each old one, as order_rows() returns it. Refers the tables to the new rows and
// sorts them. Every event they name must exist.
void order_side_tables(Recording& recording, const std::vector<std::uint64_t>& new_rows);

// Puts the events in the order of rows and everything that refers to them with it.
void order_recording(Recording& recording);

}  // namespace torchprof
