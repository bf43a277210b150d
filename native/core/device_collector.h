// What a capture records a device with. sources/cupti traces it, sources/device_events times
// ops where nothing traces it; rocprofiler-sdk and PTI fit too.
//
// One life of a collector in a process:
//
//   preload()                   before the device's runtime starts: rocprofiler-sdk must be registered then,
//                               CUPTI need not
//   probe()                     what there is, and if it is not enough why: any time, any number of times
//   start(options, log)         from now on, records go to the log: from one thread of the collector's own
//     push(id), pop(count)        on the threads of ops: what they call belongs to the op with this id
//     set_recording(wanted)       for a while not, when somebody wants that
//     flush(), drain()            what the interface holds back is handed over; all of that is in the log
//     clock_sync()                the device's clock beside ours
//   stop()                      all of what was complete is in the log, which is not touched again
//
// and start again. Of work that is still running at stop nothing is recorded: whoever wants it waits for the
// device first. What the interface lost is counted in the log (DropReason::kDeviceDropped).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/device_clock.h"

namespace torchprof {

class DeviceLog;

enum class DeviceKind : std::uint8_t { kKernel, kMemcpy, kMemset, kRuntime, kDriver, kSync, kOverhead };

struct DeviceOptions {
  std::vector<std::string> libraries;  // where the interface may be found, best first; names or paths
  std::vector<DeviceKind> kinds;
  bool correlate_ops = true;  // ops push their ids
  bool graph_level = false;   // a launched graph as one piece of work instead of its nodes
  std::size_t max_buffer_bytes = std::size_t{64} * 1024 * 1024;
};

// What a device is; numbers are -1 where they are not known.
struct DeviceProperties {
  std::string name;
  std::int64_t memory_bytes = -1;
  int compute_major = -1;
  int compute_minor = -1;
  int multiprocessors = -1;
  int warp_size = -1;
  int max_threads_per_block = -1;
  int max_threads_per_multiprocessor = -1;
  int max_blocks_per_multiprocessor = -1;
  int registers_per_block = -1;
  int registers_per_multiprocessor = -1;
  int shared_bytes_per_block = -1;
  int max_shared_bytes_per_block = -1;  // that a kernel may ask for
  int shared_bytes_per_multiprocessor = -1;
};

struct DeviceProbe {
  std::string reason;  // why a device cannot be recorded and what helps, in one line; empty when it can
  std::string library;
  std::uint32_t interface_version = 0;
  int driver_version = 0;  // 13000 = CUDA 13.0; 0 = not known
  int devices = -1;        // -1 = not known
  std::vector<DeviceProperties> properties;
  std::string subscriber;  // who else uses the interface, where that was asked; empty = nobody
};

// Says what is wrong and what helps, in one line.
class DeviceRefused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Of the work and calls recorded since start.
struct DeviceCounts {
  std::uint64_t kernels = 0;
  std::uint64_t copies = 0;
  std::uint64_t memsets = 0;
  std::uint64_t synchronizations = 0;
  std::uint64_t calls = 0;
  std::uint64_t overheads = 0;
  std::uint64_t unknown_records = 0;  // of kinds that were not asked for
  std::uint64_t buffers = 0;          // handed over
  std::int64_t decode_ns = 0;         // processor time that reading them took
};

// Never freed: the interface may call back until the process is gone. In the child of a fork nothing of it is
// ever called but to be refused.
class DeviceCollector {
 public:
  DeviceCollector() = default;
  virtual ~DeviceCollector() = default;
  DeviceCollector(const DeviceCollector&) = delete;
  DeviceCollector& operator=(const DeviceCollector&) = delete;

  virtual void preload() noexcept = 0;
  virtual DeviceProbe probe(const std::vector<std::string>& libraries, bool ask_for_subscriber) = 0;
  // Throws DeviceRefused, also while another log is being written to. `log` must live until stop() says that
  // it is not touched any more.
  virtual void start(const DeviceOptions& options, DeviceLog& log) = 0;

  // On the thread of an op, which holds no lock. An id that was pushed is popped on the same thread, the
  // latest first. False when it was not pushed.
  virtual bool push(std::uint64_t id) noexcept = 0;
  virtual void pop(std::size_t count) noexcept = 0;

  // False leaves out what is called from now on, true has it recorded again. Throws DeviceRefused.
  virtual void set_recording(bool wanted) = 0;
  virtual void flush() noexcept = 0;
  // Waits until all that was handed over is in the log; false when that took more than `timeout_ms`.
  virtual bool drain(std::int64_t timeout_ms) noexcept = 0;
  // Idempotent, and bounded in time. False when it did not end: then records are missing, and the log may
  // still be written to and must never be freed.
  virtual bool stop() noexcept = 0;

  // None where the interface does not tell its time.
  [[nodiscard]] virtual std::optional<DeviceClockPair> clock_sync() noexcept = 0;
  [[nodiscard]] virtual DeviceCounts counts() const noexcept = 0;
};

}  // namespace torchprof
