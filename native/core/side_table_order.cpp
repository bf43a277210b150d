#include "core/side_table_order.h"

#include <algorithm>

#include "core/row_order.h"

namespace torchprof {
namespace {

template <typename Record, typename Key>
void sort_by(std::vector<Record>& records, Key key) {
  const auto comes_before = [key](const Record& a, const Record& b) { return key(a) < key(b); };
  if (std::is_sorted(records.begin(), records.end(), comes_before)) return;
  std::stable_sort(records.begin(), records.end(), comes_before);
}

template <typename Record>
void renumber(std::vector<Record>& records, const std::vector<std::uint64_t>& new_rows) {
  for (Record& record : records) {
    if (record.event < 0) continue;
    record.event = static_cast<std::int64_t>(new_rows[static_cast<std::uint64_t>(record.event)]);
  }
}

}  // namespace

void order_side_tables(Recording& recording, const std::vector<std::uint64_t>& new_rows) {
  if (!new_rows.empty()) {
    for (DeviceRecord& record : recording.devices) record.event = new_rows[record.event];
    for (ArgumentsRecord& record : recording.arguments) record.event = new_rows[record.event];
    renumber(recording.counters, new_rows);
    renumber(recording.memory, new_rows);
  }
  sort_by(recording.devices, [](const DeviceRecord& record) { return record.event; });
  sort_by(recording.arguments, [](const ArgumentsRecord& record) { return record.event; });
  const auto time_ns = [](const auto& record) { return static_cast<std::int64_t>(record.time); };
  sort_by(recording.counters, time_ns);
  sort_by(recording.memory, time_ns);
  sort_by(recording.tensor_roles, time_ns);
}

void order_recording(Recording& recording) {
  const std::vector<std::uint64_t> new_rows = order_rows(recording.events);
  if (!new_rows.empty()) {
    for (std::uint64_t& from : recording.links.from) from = new_rows[from];
    for (std::uint64_t& to : recording.links.to) to = new_rows[to];
  }
  order_side_tables(recording, new_rows);
}

}  // namespace torchprof
