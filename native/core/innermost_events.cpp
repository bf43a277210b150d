#include "core/innermost_events.h"

#include "core/tree.h"

namespace torchprof {
namespace {

struct OpenEvent {
  std::int64_t row;
  std::int64_t end_ns;
};

// The events open on one track as time goes on, outermost first.
class OpenEvents {
 public:
  void clear() { open_.clear(); }

  void begin(std::int64_t row, std::int64_t end_ns) {
    // What ends before an event that begins later is not around it: see build_tree.
    leave_before(end_ns);
    open_.push_back({.row = row, .end_ns = end_ns});
  }

  [[nodiscard]] std::int64_t innermost_at(std::int64_t time_ns) {
    leave_before(time_ns);
    return open_.empty() ? -1 : open_.back().row;
  }

 private:
  void leave_before(std::int64_t time_ns) {
    while (!open_.empty() && open_.back().end_ns < time_ns) open_.pop_back();
  }

  std::vector<OpenEvent> open_;
};

}  // namespace

std::vector<std::int64_t> innermost_events(const EventTable& events, std::span<const TrackMoment> moments) {
  std::vector<std::int64_t> innermost;
  innermost.reserve(moments.size());
  OpenEvents open;
  std::uint64_t row = 0;
  const TrackMoment* previous = nullptr;
  for (const TrackMoment& moment : moments) {
    if (previous == nullptr || previous->track != moment.track) {
      open.clear();
      while (row < events.size() && events.track[row] < moment.track) ++row;
    }
    previous = &moment;
    for (; row < events.size() && events.track[row] == moment.track && events.start_ns[row] <= moment.time_ns;
         ++row) {
      if (!is_async(events.flags[row])) open.begin(static_cast<std::int64_t>(row), events.end_ns[row]);
    }
    innermost.push_back(open.innermost_at(moment.time_ns));
  }
  return innermost;
}

}  // namespace torchprof
