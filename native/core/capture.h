// A capture: the life of one recording, from the first op to the last.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "core/active_recording.h"
#include "core/device_collector.h"
#include "core/device_log.h"

namespace torchprof {

// Methods may be called from any thread. In the child of a fork a capture that was active is lost: every
// method does nothing there and counts are zero.
class Capture {
 public:
  // Creates the recording: a file at `path` (replacing a regular file there), or anonymous memory when it is
  // empty. `cap_bytes` bounds everything recorded. Throws std::system_error.
  Capture(const std::string& path, std::uint64_t cap_bytes);
  // Stops.
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // Claims a slot and records what the hooks of that slot report. Throws std::runtime_error when all slots
  // record, or when the capture was started before.
  int start();
  // Waits until no thread is inside a hook, ends open ops as unfinished, completes the recording. Idempotent;
  // takes at most about two seconds.
  void stop() noexcept;
  // -1 while not recording.
  [[nodiscard]] int slot() const noexcept { return slot_.load(std::memory_order_relaxed); }

  // Ends the open step first. Nothing while not recording. Throws std::invalid_argument for a context that
  // is neither empty nor 24 bytes, or links that are not whole contexts.
  void begin_step(const StepStart& start);
  void end_step() noexcept;
  // Of the innermost event of the calling thread, which has just begun. Nothing while not recording. Throws
  // std::invalid_argument for a context that has no ids, or links of another size.
  void add_context(const ContextStart& context);
  // Names the threads with this id in the recording, instead of what the system calls them; a longer name
  // is cut to 39 bytes. Nothing when not recording.
  void name_thread(std::uint32_t os_thread_id, std::string_view name) noexcept;
  // The id of a name, to be put into records; 0 when not recording.
  [[nodiscard]] std::uint32_t intern(std::string_view name, std::string_view overload) noexcept;
  // What tensors are to the program at this moment; the times of the records are ignored. Nothing when not
  // recording.
  void add_tensor_roles(std::span<const TensorRoleRecord> records) noexcept;
  // One JSON object for the recording's metadata. Throws std::invalid_argument when it is larger than a
  // chunk, std::runtime_error after stop.
  void add_metadata(std::string_view json_object);

  // Counts `names` from now on, on every thread: over steps, and over events as `scope` says. Throws
  // std::runtime_error when not recording or started before, std::system_error when threads cannot be listed.
  void start_counters(std::unique_ptr<CounterSource> source, std::span<const std::string> names,
                      CounterScope scope);
  // Idempotent; stop() does it too.
  void stop_counters() noexcept;

  // Records the device from now on, once in a capture. Throws DeviceRefused, also when not recording; the
  // capture goes on without.
  void start_device(DeviceCollector& collector, const DeviceOptions& options);
  // Leaves out what the device is given from now on, or records it again; without a device it does nothing.
  // Throws DeviceRefused.
  void record_device(bool wanted);
  // What the device has finished is in the recording then; bounded in time, and stop() does it too. False
  // when the device did not end: then records are missing. Again, it does nothing.
  bool stop_device() noexcept;
  // Calls that this thread makes to wait for the device are the recorder's own.
  void set_own_device_thread(std::uint32_t os_thread_id) noexcept;
  // So far, or until the device was stopped.
  [[nodiscard]] DeviceCounts device_counts() const noexcept;

  [[nodiscard]] DropCounts drops() const noexcept;
  // Events so far.
  [[nodiscard]] std::uint64_t recorded() const noexcept;
  // Why the recording is in memory although a path was given; empty otherwise.
  [[nodiscard]] const std::string& fallback_reason() const noexcept { return fallback_reason_; }
  // The process forked while this captured.
  [[nodiscard]] bool lost_in_fork() const noexcept { return recording_->arena().lost_in_fork(); }

  // The recording as bytes of its file format, also while it is being written. Alive as long as `owner`.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return recording_->arena().bytes(); }
  [[nodiscard]] std::shared_ptr<const void> owner() const noexcept { return recording_; }

 private:
  enum class State { kNew, kRecording, kStopped };

  void mark_counters() noexcept;
  bool end_device() noexcept;
  // While recording, under the lock.
  void end_counters() noexcept;
  [[nodiscard]] std::atomic<CounterScope>& counter_scope() const noexcept;

  std::shared_ptr<ActiveRecording> recording_;
  std::string fallback_reason_;
  std::atomic<int> slot_{-1};
  std::atomic<State> state_{State::kNew};
  mutable std::mutex mutex_;  // start, stop and counters against each other

  // Of everything below. Held while the collector starts and stops, by nothing that a collector or an op
  // calls.
  mutable std::mutex device_mutex_;
  DeviceCollector* device_ = nullptr;  // while it records
  std::unique_ptr<DeviceLog> device_log_;
  DeviceCounts device_counts_;
  bool device_started_ = false;
  bool device_closed_ = false;
};

}  // namespace torchprof
