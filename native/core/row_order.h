// The order of a recording's rows: by track, then start, the enclosing event first; events equal in all
// of that keep the order in which they were recorded.
#pragma once

#include <cstdint>
#include <vector>

#include "core/recording.h"

namespace torchprof {

[[nodiscard]] bool rows_in_order(const EventTable& events) noexcept;

// Sorts the rows. Returns the new row of each old row; empty when nothing had to move, which is the usual
// case: a thread records its events in this order.
std::vector<std::uint64_t> order_rows(EventTable& events);

}  // namespace torchprof
