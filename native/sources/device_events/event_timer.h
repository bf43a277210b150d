// Times the work of a device where its tracing interface cannot: by events in the device's streams around
// each op, as torch's older profiler does.
//
// An event is recorded where an op begins and where it ends. The time between two events of a thread that
// follow each other is that of the op which was innermost between them, and becomes one piece of device work,
// launched by the op and named as it: so an op's pieces, with those of the ops inside it, add up to the time
// from its first event to its last, and nothing counts twice. What the device waited meanwhile is in it; what
// was launched is not known.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/device_collector.h"
#include "torch/bridge_abi.h"

namespace torchprof::device_events {

// Where an op began or ended on a thread.
struct Boundary {
  void* event;  // nullptr: refused
  std::uint64_t op;
  std::uint32_t ended;  // how many ops did; 0: `op` began
  std::uint32_t os_thread_id;
  std::int32_t device;
};

// A moment on the clock of a device.
struct DeviceOrigin {
  std::int32_t device;
  void* event;
  std::uint64_t ticks;
};

class EventTimer final : public DeviceCollector {
 public:
  static constexpr std::size_t kMaxOps = std::size_t{1} << 19U;  // of a capture
  static constexpr std::chrono::milliseconds kStopTimeout{5000};

  // One for each table, which lives as long as the process.
  static EventTimer& of(const torchprof_device_events& events);

  explicit EventTimer(const torchprof_device_events& events, std::size_t max_ops = kMaxOps,
                      std::chrono::milliseconds stop_timeout = kStopTimeout) noexcept;

  void preload() noexcept override {}
  // Whoever has a table has all that is needed.
  DeviceProbe probe(const std::vector<std::string>&, bool) override { return {}; }
  void start(const DeviceOptions& options, DeviceLog& log) override;
  bool push(std::uint64_t id) noexcept override;
  void pop(std::size_t count) noexcept override;
  void set_recording(bool wanted) override;
  void flush() noexcept override {}
  // All is handed over at the end.
  bool drain(std::int64_t) noexcept override { return true; }
  // Waits for the device, up to the timeout; the pieces of what had not ended then are dropped.
  bool stop() noexcept override;
  // Times of a device are measured from the first event on it.
  [[nodiscard]] std::optional<DeviceClockPair> clock_sync() noexcept override { return std::nullopt; }
  [[nodiscard]] DeviceCounts counts() const noexcept override;

 private:
  struct Session;

  // Puts an event into the stream of the calling thread, and keeps it; false when there is no more room.
  bool mark(Session& session, std::uint64_t op, std::size_t ended) noexcept;

  const torchprof_device_events& events_;
  const std::size_t max_ops_;
  const std::chrono::milliseconds stop_timeout_;

  mutable std::mutex mutex_;  // of what follows; held over no call into the device but the first on one
  std::shared_ptr<Session> session_;
  bool is_recording_ = true;
  std::uint64_t process_id_ = 0;  // of the first session
  DeviceCounts counts_;
};

}  // namespace torchprof::device_events
