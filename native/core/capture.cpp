#include "core/capture.h"

#include <new>
#include <stdexcept>
#include <utility>

#include "core/counter_log.h"
#include "core/op_hooks.h"
#include "core/populator.h"
#include "core/registry.h"

namespace torchprof {
namespace {

std::shared_ptr<ActiveRecording> create(const std::string& path, std::uint64_t cap_bytes) {
  static_cast<void>(Registry::instance());  // hooks rely on it
  return std::make_shared<ActiveRecording>(path, cap_bytes);
}

// Keeps memory that a thread may still write to, or that is not this process's, for ever; within reach, so
// that who looks for lost memory does not find it.
void leak(std::shared_ptr<ActiveRecording> recording,
          std::unique_ptr<DeviceLog> device_log = nullptr) noexcept {
  struct Kept {
    std::shared_ptr<ActiveRecording> recording;
    DeviceLog* device_log;
    Kept* next;
  };
  static std::atomic<Kept*> latest{nullptr};
  auto* const kept = new (std::nothrow)
      Kept{.recording = std::move(recording), .device_log = device_log.release(), .next = nullptr};
  if (kept != nullptr) {
    kept->next = latest.exchange(kept);
  }
}

}  // namespace

Capture::Capture(const std::string& path, std::uint64_t cap_bytes)
    : recording_(create(path, cap_bytes)), fallback_reason_(recording_->arena().fallback_reason()) {}

Capture::~Capture() {
  if (lost_in_fork()) {
    leak(std::move(recording_));
    return;
  }
  stop();
}

int Capture::start() {
  if (lost_in_fork()) {
    throw std::runtime_error("this capture belongs to the parent process; create a new one");
  }
  const std::lock_guard lock(mutex_);
  if (state_.load(std::memory_order_relaxed) != State::kNew) {
    throw std::runtime_error("a capture starts once; create a new one");
  }
  recording_->begin_clock();
  const int slot = Registry::instance().start(*recording_);
  if (slot < 0) {
    throw std::runtime_error("all " + std::to_string(kSlots) + " capture slots record; stop a capture first");
  }
  Populator::add(recording_->arena());
  slot_.store(slot, std::memory_order_relaxed);
  state_.store(State::kRecording, std::memory_order_release);
  return slot;
}

void Capture::stop() noexcept {
  if (lost_in_fork()) {
    return;
  }
  {
    const std::lock_guard lock(device_mutex_);
    end_device();
    device_closed_ = true;
  }
  const std::lock_guard lock(mutex_);
  const State before = state_.exchange(State::kStopped);
  if (before == State::kStopped) {
    return;
  }
  if (before == State::kRecording) {
    end_counters();
    Populator::remove(recording_->arena());
    if (Registry::instance().stop(static_cast<std::uint32_t>(slot_.load(std::memory_order_relaxed)),
                                  *recording_)) {
      recording_->close_counters();
    } else {
      leak(recording_);
    }
    slot_.store(-1, std::memory_order_relaxed);
  }
  recording_->finish();
}

void Capture::begin_step(const StepStart& start) {
  if (!start.context.empty() && start.context.size() != kContextBytes) {
    throw std::invalid_argument("a step's context is empty or 24 bytes: trace id and span id");
  }
  if (start.links.size() % kContextBytes != 0) {
    throw std::invalid_argument("a step's links are 24 bytes each: trace id and span id");
  }
  if (start.links.size() > kMaxRecordBytes) {
    throw std::invalid_argument("a step has more links than fit a chunk of the recording");
  }
  const int slot = this->slot();
  if (!lost_in_fork() && slot >= 0) {
    mark_counters();
    recording_->begin_step(start, current_thread_ordinal(static_cast<std::uint32_t>(slot), *recording_));
  }
}

void Capture::end_step() noexcept {
  if (!lost_in_fork()) {
    mark_counters();
    recording_->end_step();
  }
}

void Capture::add_context(const ContextStart& context) {
  if (context.context.size() != kContextBytes || context.links.size() % kContextBytes != 0) {
    throw std::invalid_argument("a context and its links are 24 bytes each: trace id and span id");
  }
  if (context.links.size() > kMaxRecordBytes) {
    throw std::invalid_argument("a context has more links than fit a chunk of the recording");
  }
  const int slot = this->slot();
  if (!lost_in_fork() && slot >= 0) {
    recording_->add_context(context, current_thread_ordinal(static_cast<std::uint32_t>(slot), *recording_));
  }
}

void Capture::mark_counters() noexcept {
  const std::lock_guard lock(mutex_);  // a stop closes them
  if (CounterLog* counters = recording_->counters(); counters != nullptr) {
    counters->mark();
  }
}

void Capture::start_counters(std::unique_ptr<CounterSource> source, std::span<const std::string> names,
                             CounterScope scope) {
  const std::lock_guard lock(mutex_);
  if (lost_in_fork() || state_.load(std::memory_order_relaxed) != State::kRecording) {
    throw std::runtime_error("the capture does not record; start it before its counters");
  }
  recording_->start_counters(std::move(source), names);
  counter_scope().store(scope, std::memory_order_relaxed);
}

void Capture::stop_counters() noexcept {
  if (lost_in_fork()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  if (state_.load(std::memory_order_relaxed) == State::kRecording) {
    end_counters();
  }
}

void Capture::end_counters() noexcept {
  counter_scope().store(CounterScope::kNone, std::memory_order_relaxed);
  recording_->stop_counters();
}

std::atomic<CounterScope>& Capture::counter_scope() const noexcept {
  return slots[static_cast<std::size_t>(slot_.load(std::memory_order_relaxed))].counter_scope;
}

void Capture::start_device(DeviceCollector& collector, const DeviceOptions& options) {
  const int slot = this->slot();
  if (lost_in_fork() || slot < 0) {
    throw DeviceRefused("the capture does not record; start it before its device");
  }
  const std::lock_guard lock(device_mutex_);
  if (device_closed_ || device_started_) {
    throw DeviceRefused("the device of a capture starts once, while it records; begin a new capture");
  }
  auto log = std::make_unique<DeviceLog>(*recording_, static_cast<std::uint32_t>(slot));
  collector.start(options, *log);
  device_started_ = true;
  device_log_ = std::move(log);
  device_ = &collector;
  if (options.correlate_ops) {
    slots[static_cast<std::size_t>(slot)].device.store(&collector, std::memory_order_release);
  }
}

void Capture::record_device(bool wanted) {
  if (lost_in_fork()) {
    return;
  }
  const std::lock_guard lock(device_mutex_);
  if (device_ != nullptr) {
    device_->set_recording(wanted);
  }
}

bool Capture::stop_device() noexcept {
  if (lost_in_fork()) {
    return true;
  }
  const std::lock_guard lock(device_mutex_);
  return end_device();
}

void Capture::set_own_device_thread(std::uint32_t os_thread_id) noexcept {
  if (lost_in_fork()) {
    return;
  }
  const std::lock_guard lock(device_mutex_);
  if (device_log_ != nullptr) {
    device_log_->set_own_thread(os_thread_id);
  }
}

bool Capture::end_device() noexcept {
  if (device_ == nullptr) {
    return true;
  }
  slots[static_cast<std::size_t>(slot_.load(std::memory_order_relaxed))].device.store(
      nullptr, std::memory_order_release);
  const bool is_done = device_->stop();
  device_counts_ = device_->counts();
  device_ = nullptr;
  if (is_done) {
    device_log_->close();
    device_log_.reset();
  } else {
    leak(recording_, std::move(device_log_));  // still written to
  }
  return is_done;
}

DeviceCounts Capture::device_counts() const noexcept {
  if (lost_in_fork()) {
    return {};
  }
  const std::lock_guard lock(device_mutex_);
  return device_ != nullptr ? device_->counts() : device_counts_;
}

void Capture::name_thread(std::uint32_t os_thread_id, std::string_view name) noexcept {
  if (!lost_in_fork()) {
    recording_->name_thread(os_thread_id, name);
  }
}

std::uint32_t Capture::intern(std::string_view name, std::string_view overload) noexcept {
  return slot() < 0 || lost_in_fork() ? 0 : recording_->intern(name, overload);
}

void Capture::add_tensor_roles(std::span<const TensorRoleRecord> records) noexcept {
  if (slot() >= 0 && !lost_in_fork()) {
    recording_->add_tensor_roles(records);
  }
}

void Capture::add_metadata(std::string_view json_object) {
  if (json_object.size() >= kMaxRecordBytes) {
    throw std::invalid_argument("a metadata object is larger than a chunk of the recording (1 MiB)");
  }
  if (lost_in_fork()) {
    return;
  }
  if (state_.load(std::memory_order_acquire) == State::kStopped) {
    throw std::runtime_error("the capture has stopped; add metadata before stop()");
  }
  recording_->add_metadata(json_object);
}

DropCounts Capture::drops() const noexcept {
  if (lost_in_fork()) {
    return {};
  }
  DropCounts counts = recording_->drops();
  if (const int slot = this->slot(); slot >= 0) {
    Registry::instance().add_pending_drops(static_cast<std::uint32_t>(slot), *recording_, counts);
  }
  return counts;
}

std::uint64_t Capture::recorded() const noexcept {
  return lost_in_fork() ? 0 : recording_->arena().count_events();
}

}  // namespace torchprof
