#include "core/aggregate/thread_counts.h"

namespace torchprof {

ThreadCounts::ThreadCounts(SharedCounts& shared) : shared_(&shared), cells_(shared.names().max_size()) {}

const OpName* ThreadCounts::find_by_text(const char* name, bool is_user, const OpName*& known) noexcept {
  const OpName& found = shared_->names().find(name, is_user);
  if (!cells_.have(found.id)) {
    count_drops(CountDrop::kNoMemory, 1);
    ++forgotten_;
    return nullptr;
  }
  if (OpNames::is_overflow(found)) {
    count_drops(CountDrop::kNameTableFull, 1);
  } else {
    known = &found;
  }
  return &found;
}

void ThreadCounts::add_duration(CountCell& cell, std::uint64_t duration, std::uint64_t weight) noexcept {
  if (DurationHistogram* durations = CountCells::durations_of(cell); durations != nullptr) {
    add_to(durations->counts[shared_->buckets().index(duration)], weight);
  }
}

void ThreadCounts::follow(CountControl control) noexcept {
  const std::size_t interrupted = open_.forget();
  count_drops(CountDrop::kInterrupted, interrupted);
  forgotten_ += interrupted;
  control_.store(control.word(), std::memory_order_relaxed);
}

void ThreadCounts::end_of_other(const ClaimedOp& op, CountControl began_under,
                                std::uint64_t end_ticks) noexcept {
  if (!cells_.have(op.cell / static_cast<std::uint32_t>(kPhases))) {
    count_drops(CountDrop::kNoMemory, 1);
    return;
  }
  const std::uint64_t duration = elapsed(op.start_ticks, end_ticks);
  add(op.cell, began_under, duration, duration);
}

void ThreadCounts::end_of_unknown() noexcept {
  if (forgotten_ > 0) {
    --forgotten_;
    return;
  }
  count_drops(CountDrop::kUnmatchedEnd, 1);
}

void ThreadCounts::make_room() noexcept {
  const std::size_t given_up = open_.make_room();
  count_drops(CountDrop::kStackTooDeep, given_up);
  forgotten_ += given_up;
}

void ThreadCounts::add_drops(CountDrops& drops) const noexcept {
  for (std::size_t reason = 0; reason < kCountDrops; ++reason) {
    drops[reason] += drops_[reason].load(std::memory_order_relaxed);
  }
}

}  // namespace torchprof
