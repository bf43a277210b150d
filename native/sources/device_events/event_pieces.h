// Makes pieces of device work of the events around ops.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "core/device_clock.h"
#include "core/device_log.h"
#include "sources/device_events/event_timer.h"

namespace torchprof::device_events {

// Writes the pieces of one thread after the other into a log; on one thread.
class PieceWriter {
 public:
  // `is_given_up`: writing ends at the next piece.
  PieceWriter(const torchprof_device_events& events, std::span<const DeviceOrigin> origins, DeviceLog& log,
              const std::atomic<bool>& is_given_up, std::atomic<std::size_t>& boundaries_read);

  // All boundaries of one thread, in order.
  void write_thread(std::span<const Boundary> boundaries);

  [[nodiscard]] std::uint64_t written() const noexcept { return written_; }
  // Times between events that could not be had.
  [[nodiscard]] std::uint64_t lost() const noexcept { return lost_; }

 private:
  struct OpenOp {
    std::uint64_t id;
    std::int64_t correlation;
  };
  // The latest event whose place on the device's clock is known.
  struct Anchor {
    const void* event;
    double ns;
    DeviceClockLine line;
  };

  void apply(const Boundary& boundary);
  void write_piece(const Boundary& from, const Boundary& to, std::uint32_t lane);
  [[nodiscard]] Anchor* anchor_of(std::int32_t device);

  const torchprof_device_events& events_;
  std::span<const DeviceOrigin> origins_;
  DeviceLog& log_;
  const std::atomic<bool>& is_given_up_;
  std::atomic<std::size_t>& boundaries_read_;
  const double ticks_per_ns_;

  std::vector<OpenOp> open_;
  std::vector<std::pair<std::int32_t, Anchor>> anchors_;  // of the thread, by device
  std::uint64_t end_ticks_ = 0;                           // of the thread's latest piece
  std::int64_t correlation_ = 0;
  std::uint64_t written_ = 0;
  std::uint64_t lost_ = 0;
};

}  // namespace torchprof::device_events
