#include "sources/device_events/event_pieces.h"

#include <algorithm>
#include <cmath>

#include "core/clock.h"

namespace torchprof::device_events {
namespace {

// The time between two events is a float: over a second it is exact to 60 ns, over an hour to 250 us.
constexpr double kMaxFromAnchorNs = 1e9;

DeviceWorkRecord work_of(std::uint32_t name, std::int32_t device, std::uint32_t lane) {
  return {
      .start_ticks = 0,
      .end_ticks = 0,
      .correlation = -1,
      .size_bytes = -1,
      .graph_node_id = -1,
      .graph_id = -1,
      .name = name,
      .device = device,
      .context = -1,
      .stream = static_cast<std::int32_t>(lane),
      .wait_stream = -1,
      .wait_event = -1,
      .grid = {},
      .block = {},
      .multiprocessors = 0,
      .registers = -1,
      .shared_bytes = -1,
      .kind = static_cast<std::uint8_t>(EventKind::kKernel),
      .reserved = {},
  };
}

}  // namespace

PieceWriter::PieceWriter(const torchprof_device_events& events, std::span<const DeviceOrigin> origins,
                         DeviceLog& log, const std::atomic<bool>& is_given_up,
                         std::atomic<std::size_t>& boundaries_read)
    : events_(events),
      origins_(origins),
      log_(log),
      is_given_up_(is_given_up),
      boundaries_read_(boundaries_read),
      ticks_per_ns_(1.0 / ns_per_tick()) {}

void PieceWriter::write_thread(std::span<const Boundary> boundaries) {
  if (boundaries.empty()) {
    return;
  }
  open_.clear();
  anchors_.clear();
  end_ticks_ = 0;
  const std::uint32_t lane = log_.ordinal_of(boundaries.front().os_thread_id);
  for (std::size_t i = 0; i + 1 < boundaries.size(); ++i) {
    if (is_given_up_.load(std::memory_order_relaxed)) {
      return;
    }
    apply(boundaries[i]);
    boundaries_read_.fetch_add(1, std::memory_order_relaxed);
    if (!open_.empty()) {
      write_piece(boundaries[i], boundaries[i + 1], lane);
    }
  }
}

void PieceWriter::apply(const Boundary& boundary) {
  if (boundary.ended == 0) {
    open_.push_back({.id = boundary.op, .correlation = ++correlation_});
    log_.add_op(correlation_, boundary.op);
  } else {
    open_.resize(open_.size() - std::min<std::size_t>(open_.size(), boundary.ended));
  }
}

void PieceWriter::write_piece(const Boundary& from, const Boundary& to, std::uint32_t lane) {
  Anchor* const anchor = anchor_of(from.device);
  if (from.event == nullptr || to.event == nullptr || from.device != to.device || anchor == nullptr) {
    ++lost_;
    return;
  }
  const double duration_ns = events_.elapsed_ns(from.event, to.event);
  const double start_ns = anchor->ns + events_.elapsed_ns(anchor->event, from.event);
  if (std::isnan(duration_ns) || std::isnan(start_ns)) {
    ++lost_;
    return;
  }
  if (start_ns - anchor->ns > kMaxFromAnchorNs) {
    anchor->event = from.event;
    anchor->ns = start_ns;
  }
  // Nothing, or an event in another stream that came earlier.
  if (duration_ns <= 0 || start_ns < 0 || is_given_up_.load(std::memory_order_relaxed)) {
    return;
  }
  const OpenOp& op = open_.back();
  DeviceWorkRecord& work = log_.next_work();
  work = work_of(log_.name_of_op(op.id), from.device, lane);
  const std::uint64_t begins = anchor->line.to_ticks(static_cast<std::uint64_t>(std::llround(start_ns)));
  work.start_ticks = std::max(begins, end_ticks_);
  work.end_ticks = work.start_ticks + static_cast<std::uint64_t>(std::llround(duration_ns * ticks_per_ns_));
  end_ticks_ = work.end_ticks;
  work.correlation = op.correlation;
  log_.add(work);
  ++written_;
}

PieceWriter::Anchor* PieceWriter::anchor_of(std::int32_t device) {
  for (auto& [of, anchor] : anchors_) {
    if (of == device) {
      return &anchor;
    }
  }
  for (const DeviceOrigin& origin : origins_) {
    if (origin.device == device) {
      const DeviceClockPair at{.device_ns = 0, .ticks = origin.ticks};
      const DeviceClockLine line(at, at, ticks_per_ns_);
      return &anchors_.emplace_back(device, Anchor{.event = origin.event, .ns = 0, .line = line}).second;
    }
  }
  return nullptr;
}

}  // namespace torchprof::device_events
