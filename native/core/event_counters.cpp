#include "core/event_counters.h"

#include <algorithm>
#include <atomic>
#include <new>

namespace torchprof {

bool EventCounters::read_start() noexcept {
  forget_ended();
  if (open_.size() == kMaxCountedEvents) {
    recording_.count_drops(DropReason::kNotCounted);
    return false;
  }
  if (!counters_.read_own(start_)) {
    recording_.count_drops(DropReason::kNotCounted);
    return false;
  }
  return true;
}

void EventCounters::opened(const OpRecord& event) noexcept {
  try {
    open_.push_back({.event = &event, .start = start_});
  } catch (const std::bad_alloc&) {
    recording_.count_drops(DropReason::kNotCounted);
  }
}

void EventCounters::ended(const OpRecord& event) noexcept {
  const auto found =
      std::find_if(open_.rbegin(), open_.rend(), [&event](const Open& open) { return open.event == &event; });
  if (found == open_.rend()) {
    return;
  }
  CounterReading end;
  if (counters_.read_own(end)) {
    records_.write(cursor_, {.time = event.start_ticks, .event = kEventByStart, .track = ordinal_},
                   found->start, end);
  } else {
    recording_.count_drops(DropReason::kNotCounted);
  }
  found->event = nullptr;
  forget_ended();
}

void EventCounters::forget_ended() noexcept {
  while (!open_.empty() && (open_.back().event == nullptr ||
                            open_.back().event->end_ticks.load(std::memory_order_relaxed) != 0)) {
    open_.pop_back();
  }
}

}  // namespace torchprof
