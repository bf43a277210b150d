#include "core/event_memory.h"

#include <algorithm>
#include <limits>

#include "core/innermost_events.h"

namespace torchprof {
namespace {

constexpr std::uint8_t kCpu = 0;  // c10::DeviceType

// Sums of a damaged file may pass what 64 bits hold.
std::int64_t saturated_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b > 0 ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int64_t>::min() + 1;
}

// Follows what one track holds while the events that enclose each allocation come and go.
class Peaks {
 public:
  Peaks(const Tree& tree, std::vector<std::int64_t>& peak)
      : tree_(tree), peak_(peak), depth_(tree.parent.size()) {}

  void change(std::int64_t row, std::int64_t size_bytes) {
    enter(row);
    held_bytes_ = saturated_sum(held_bytes_, size_bytes);
    open_.back().highest_bytes = std::max(open_.back().highest_bytes, held_bytes_);
  }

  void end_track() {
    leave_until(0);
    held_bytes_ = 0;
  }

 private:
  struct OpenEvent {
    std::int64_t row;
    std::int64_t before_bytes;
    std::int64_t highest_bytes;
  };

  // Makes `row` the innermost open event. Where nothing was allocated since an event began, it may as well
  // begin now.
  void enter(std::int64_t row) {
    path_.clear();
    for (; row >= 0 && depth_[static_cast<std::size_t>(row)] == 0;
         row = tree_.parent[static_cast<std::size_t>(row)]) {
      path_.push_back(row);
    }
    leave_until(row < 0 ? 0 : depth_[static_cast<std::size_t>(row)]);
    for (auto entered = path_.rbegin(); entered != path_.rend(); ++entered) {
      open_.push_back({.row = *entered, .before_bytes = held_bytes_, .highest_bytes = held_bytes_});
      depth_[static_cast<std::size_t>(*entered)] = static_cast<std::uint32_t>(open_.size());
    }
  }

  void leave_until(std::size_t depth) {
    while (open_.size() > depth) {
      const OpenEvent left = open_.back();
      open_.pop_back();
      const auto row = static_cast<std::size_t>(left.row);
      depth_[row] = 0;
      peak_[row] = std::max(peak_[row], saturated_sum(left.highest_bytes, -left.before_bytes));
      if (!open_.empty()) {
        open_.back().highest_bytes = std::max(open_.back().highest_bytes, left.highest_bytes);
      }
    }
  }

  const Tree& tree_;
  std::vector<std::int64_t>& peak_;
  std::vector<std::uint32_t> depth_;  // in `open_`, from 1; 0 = not open
  std::vector<OpenEvent> open_;
  std::vector<std::int64_t> path_;
  std::int64_t held_bytes_ = 0;
};

// Rows of memory in order of track, then time.
std::vector<std::uint64_t> by_track(const Recording& recording) {
  std::vector<std::uint64_t> order;
  order.reserve(recording.memory.size());
  for (std::uint64_t index = 0; index < recording.memory.size(); ++index) order.push_back(index);
  std::stable_sort(order.begin(), order.end(), [&recording](std::uint64_t a, std::uint64_t b) {
    return recording.memory[a].track < recording.memory[b].track;
  });
  return order;
}

}  // namespace

std::vector<std::int64_t> memory_events(const Recording& recording) {
  std::vector<std::int64_t> events;
  events.reserve(recording.memory.size());
  bool is_complete = true;
  for (const MemoryRecord& record : recording.memory) {
    events.push_back(record.event);
    is_complete = is_complete && record.event >= 0;
  }
  if (is_complete) return events;
  const std::vector<std::uint64_t> order = by_track(recording);
  std::vector<TrackMoment> moments;
  moments.reserve(order.size());
  for (const std::uint64_t index : order) {
    const MemoryRecord& record = recording.memory[index];
    moments.push_back({.track = record.track, .time_ns = static_cast<std::int64_t>(record.time)});
  }
  const std::vector<std::int64_t> innermost = innermost_events(recording.events, moments);
  for (std::size_t place = 0; place < order.size(); ++place) {
    std::int64_t& event = events[order[place]];
    if (event < 0) event = innermost[place];
  }
  return events;
}

EventMemory event_memory(const Recording& recording, const Tree& tree, MemoryOf memory) {
  const std::size_t rows = recording.events.size();
  EventMemory sums;
  sums.self_allocated.resize(rows);
  sums.self_freed.resize(rows);
  sums.peak.resize(rows);
  const std::vector<std::int64_t> events = memory_events(recording);
  Peaks peaks(tree, sums.peak);
  std::uint32_t track = 0;
  for (const std::uint64_t index : by_track(recording)) {
    const MemoryRecord& record = recording.memory[index];
    const bool is_wanted = (record.device_type == kCpu) == (memory == MemoryOf::kHost);
    if (!is_wanted || events[index] < 0 || (record.flags & kMemoryOutOfMemory) != 0) continue;
    if (record.track != track) {
      peaks.end_track();
      track = record.track;
    }
    const auto row = static_cast<std::size_t>(events[index]);
    if (record.size_bytes > 0) {
      sums.self_allocated[row] = saturated_sum(sums.self_allocated[row], record.size_bytes);
    } else {
      sums.self_freed[row] = saturated_sum(
          sums.self_freed[row], -std::max(record.size_bytes, std::numeric_limits<std::int64_t>::min() + 1));
    }
    peaks.change(events[index], std::max(record.size_bytes, std::numeric_limits<std::int64_t>::min() + 1));
  }
  peaks.end_track();

  sums.allocated = sums.self_allocated;
  sums.freed = sums.self_freed;
  for (std::size_t row = rows; row-- > 0;) {
    if (tree.parent[row] < 0) continue;
    const auto parent = static_cast<std::size_t>(tree.parent[row]);
    sums.allocated[parent] = saturated_sum(sums.allocated[parent], sums.allocated[row]);
    sums.freed[parent] = saturated_sum(sums.freed[parent], sums.freed[row]);
  }
  return sums;
}

}  // namespace torchprof
