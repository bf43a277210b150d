#include "core/row_order.h"

#include <algorithm>
#include <numeric>

namespace torchprof {
namespace {

bool comes_before(const EventTable& events, std::uint64_t a, std::uint64_t b) noexcept {
  if (events.track[a] != events.track[b]) return events.track[a] < events.track[b];
  if (events.start_ns[a] != events.start_ns[b]) return events.start_ns[a] < events.start_ns[b];
  return events.end_ns[a] > events.end_ns[b];
}

template <typename T>
void gather(std::vector<T>& column, const std::vector<std::uint64_t>& old_rows) {
  if (column.empty()) return;
  std::vector<T> sorted;
  sorted.reserve(column.size());
  for (const std::uint64_t old_row : old_rows) sorted.push_back(column[old_row]);
  column = std::move(sorted);
}

}  // namespace

bool rows_in_order(const EventTable& events) noexcept {
  for (std::uint64_t row = 1; row < events.size(); ++row) {
    if (comes_before(events, row, row - 1)) return false;
  }
  return true;
}

std::vector<std::uint64_t> order_rows(EventTable& events) {
  if (rows_in_order(events)) return {};
  std::vector<std::uint64_t> old_rows(events.size());
  std::iota(old_rows.begin(), old_rows.end(), std::uint64_t{0});
  std::stable_sort(old_rows.begin(), old_rows.end(),
                   [&events](std::uint64_t a, std::uint64_t b) { return comes_before(events, a, b); });

  gather(events.start_ns, old_rows);
  gather(events.end_ns, old_rows);
  gather(events.name, old_rows);
  gather(events.track, old_rows);
  gather(events.kind, old_rows);
  gather(events.scope, old_rows);
  gather(events.flags, old_rows);
  gather(events.sequence, old_rows);
  gather(events.forward_thread, old_rows);
  gather(events.end_track, old_rows);
  gather(events.payload, old_rows);
  gather(events.correlation, old_rows);
  gather(events.error, old_rows);

  std::vector<std::uint64_t> new_rows(old_rows.size());
  for (std::uint64_t row = 0; row < old_rows.size(); ++row) new_rows[old_rows[row]] = row;
  return new_rows;
}

}  // namespace torchprof
