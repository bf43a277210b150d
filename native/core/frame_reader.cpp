#include "core/frame_reader.h"

#include <algorithm>

namespace torchprof {
namespace {

std::uint64_t end_of(std::uint64_t end_ticks) noexcept { return end_ticks == 0 ? kStillOpen : end_ticks; }

FrameSlice slice_of(const FrameRecord& record) noexcept {
  return {.record = &record,
          .start_ticks = record.start_ticks,
          .end_ticks = end_of(record.end_ticks.load(std::memory_order_acquire))};
}

bool start_is_certain(const FrameSlice& frame) noexcept {
  return (frame.record->flags.load(std::memory_order_relaxed) & kFlagEnteredBefore) == 0;
}
bool end_is_certain(const FrameSlice& frame) noexcept {
  return (frame.record->flags.load(std::memory_order_relaxed) & kFlagUnfinished) == 0;
}

struct OpenOp {
  std::uint64_t start_ticks;
  std::uint64_t end_ticks;
};

// Ops that are open at some moment, outermost first. Moments are asked for in order.
class OpenOps {
 public:
  OpenOps(std::span<const std::byte> file, std::span<const Chunk* const> ops) : ops_(file, ops) {}

  const std::vector<OpenOp>& at(std::uint64_t ticks) {
    for (; ops_.get() != nullptr && ops_.get()->start_ticks < ticks; ops_.advance()) {
      const OpRecord& op = *ops_.get();
      // An op that did not end where it began encloses nothing.
      if ((op.flags.load(std::memory_order_relaxed) & (kFlagAsync | kFlagOtherThread)) != 0) continue;
      close_before(op.start_ticks);
      open_.push_back(
          {.start_ticks = op.start_ticks, .end_ticks = end_of(op.end_ticks.load(std::memory_order_acquire))});
    }
    close_before(ticks);
    return open_;
  }

 private:
  void close_before(std::uint64_t ticks) {
    while (!open_.empty() && open_.back().end_ticks <= ticks) open_.pop_back();
  }

  RecordCursor<OpRecord> ops_;
  std::vector<OpenOp> open_;
};

// An op began before the frame did and ended inside it.
void move_bound_at_start(FrameSlice& frame, const OpenOp& op) noexcept {
  if (op.end_ticks >= frame.end_ticks) return;
  if (start_is_certain(frame)) {
    frame.end_ticks = op.end_ticks;
  } else {
    frame.start_ticks = std::min(frame.start_ticks, op.start_ticks);
  }
}

// An op began inside the frame and ended after it.
void move_bound_at_end(FrameSlice& frame, const OpenOp& op) noexcept {
  if (op.start_ticks <= frame.start_ticks) return;
  if (end_is_certain(frame)) {
    frame.start_ticks = op.start_ticks;
  } else {
    frame.end_ticks = std::max(frame.end_ticks, op.end_ticks);
  }
}

void settle_bounds(std::vector<FrameSlice>& frames, std::span<const std::byte> file,
                   std::span<const Chunk* const> ops) {
  struct Bound {
    std::uint64_t ticks;
    std::size_t frame;
    bool is_end;
  };
  std::vector<Bound> bounds;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    bounds.push_back({.ticks = frames[i].start_ticks, .frame = i, .is_end = false});
    if (frames[i].end_ticks != kStillOpen) {
      bounds.push_back({.ticks = frames[i].end_ticks, .frame = i, .is_end = true});
    }
  }
  std::stable_sort(bounds.begin(), bounds.end(),
                   [](const Bound& a, const Bound& b) { return a.ticks < b.ticks; });
  OpenOps open_ops(file, ops);
  for (const Bound& bound : bounds) {
    FrameSlice& frame = frames[bound.frame];
    for (const OpenOp& op : open_ops.at(bound.ticks)) {
      if (bound.is_end) {
        move_bound_at_end(frame, op);
      } else {
        move_bound_at_start(frame, op);
      }
    }
  }
  std::stable_sort(frames.begin(), frames.end(), [](const FrameSlice& a, const FrameSlice& b) {
    return comes_before(a.start_ticks, a.end_ticks, b.start_ticks, b.end_ticks);
  });
}

}  // namespace

FrameReader::FrameReader(std::span<const std::byte> file, std::span<const Chunk* const> frames,
                         std::span<const Chunk* const> ops)
    : certain_(file, frames) {
  for (RecordCursor<FrameRecord> all(file, frames); all.get() != nullptr; all.advance()) {
    if (!is_certain(*all.get())) uncertain_.push_back(slice_of(*all.get()));
  }
  settle_bounds(uncertain_, file, ops);
  skip_uncertain();
  advance();
}

bool FrameReader::is_certain(const FrameRecord& record) noexcept {
  return (record.flags.load(std::memory_order_relaxed) & (kFlagEnteredBefore | kFlagUnfinished)) == 0;
}

void FrameReader::skip_uncertain() noexcept {
  while (certain_.get() != nullptr && !is_certain(*certain_.get())) certain_.advance();
}

void FrameReader::advance() noexcept {
  const FrameSlice* uncertain = next_uncertain_ < uncertain_.size() ? &uncertain_[next_uncertain_] : nullptr;
  if (certain_.get() == nullptr) {
    current_ = uncertain != nullptr ? *uncertain : FrameSlice{};
    if (uncertain != nullptr) ++next_uncertain_;
    return;
  }
  const FrameSlice certain = slice_of(*certain_.get());
  // An uncertain frame that equals a certain one was moved out to its bounds, and so encloses it.
  if (uncertain != nullptr &&
      !comes_before(certain.start_ticks, certain.end_ticks, uncertain->start_ticks, uncertain->end_ticks)) {
    current_ = *uncertain;
    ++next_uncertain_;
    return;
  }
  current_ = certain;
  certain_.advance();
  skip_uncertain();
}

}  // namespace torchprof
