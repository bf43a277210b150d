#include "core/counted_events.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace torchprof {
namespace {

class EventFinder {
 public:
  explicit EventFinder(const EventTable& events) : events_(events) {
    std::uint64_t row = 0;
    while (row < events.size()) {
      const std::uint32_t track = events.track[row];
      if (track >= first_rows_.size()) first_rows_.resize(track + 1, 0);
      first_rows_[track] = row;
      while (row < events.size() && events.track[row] == track) ++row;
      if (track >= end_rows_.size()) end_rows_.resize(track + 1, 0);
      end_rows_[track] = row;
    }
  }

  [[nodiscard]] std::optional<std::int64_t> find(std::uint32_t track, std::int64_t start_ns) const {
    if (track >= first_rows_.size()) return std::nullopt;
    const auto begin = events_.start_ns.begin();
    const auto last = begin + static_cast<std::ptrdiff_t>(end_rows_[track]);
    auto row = std::lower_bound(begin + static_cast<std::ptrdiff_t>(first_rows_[track]), last, start_ns);
    for (; row < last && *row == start_ns; ++row) {
      const auto kind = static_cast<EventKind>(events_.kind[static_cast<std::size_t>(row - begin)]);
      if (kind == EventKind::kOp || kind == EventKind::kUser) return row - begin;
    }
    return std::nullopt;
  }

 private:
  const EventTable& events_;
  std::vector<std::uint64_t> first_rows_;  // by track
  std::vector<std::uint64_t> end_rows_;
};

}  // namespace

void find_counted_events(Recording& recording, ProblemCounts& problems) {
  const auto is_by_start = [](const CounterRecord& counter) { return counter.event == kEventByStart; };
  if (std::none_of(recording.counters.begin(), recording.counters.end(), is_by_start)) return;
  const EventFinder events(recording.events);
  std::erase_if(recording.counters, [&](CounterRecord& counter) {
    if (!is_by_start(counter)) return false;
    const auto row = events.find(counter.track, static_cast<std::int64_t>(counter.time));
    if (row) {
      counter.event = *row;
    } else if (recording.stopped) {
      problems.add(ReadProblem::kSideRowWithoutEvent);
    }
    return !row.has_value();
  });
}

}  // namespace torchprof
