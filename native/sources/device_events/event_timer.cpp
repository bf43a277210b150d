#include "sources/device_events/event_timer.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <new>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "core/blocked_signals.h"
#include "core/clock.h"
#include "core/device_log.h"
#include "core/thread_state.h"
#include "sources/device_events/event_pieces.h"

namespace torchprof::device_events {
namespace {

constexpr const char* kThreadName = "torchprof-event";

std::uint64_t this_process() noexcept { return static_cast<std::uint64_t>(::getpid()); }

}  // namespace

// One capture's. The thread that makes pieces of it may outlive the capture, when the device hangs.
struct EventTimer::Session {
  Session(const torchprof_device_events& events_of, DeviceLog& log_of) : events(events_of), log(log_of) {}
  // Events of a device that has failed are left to the process's end: to destroy one is an error then, which
  // torch throws where nothing may be thrown.
  ~Session() {
    if (!is_device_well) {
      return;
    }
    for (const Boundary& boundary : boundaries) {
      release(boundary.event);
    }
    for (const DeviceOrigin& origin : origins) {
      release(origin.event);
    }
    for (void* const event : late) {
      release(event);
    }
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void release(void* event) const noexcept {
    if (event != nullptr) {
      events.release(event);
    }
  }
  [[nodiscard]] bool knows(std::int32_t device) const noexcept {
    return std::any_of(origins.begin(), origins.end(),
                       [device](const DeviceOrigin& origin) noexcept { return origin.device == device; });
  }
  // Where times on a device are measured from. Without one, what is on it has no place in time and is lost.
  void add_origin(std::int32_t device) noexcept {
    std::int32_t same = device;
    void* const event = events.record(&same);
    if (event == nullptr) {
      return;
    }
    try {
      origins.push_back({.device = same, .event = event, .ticks = ticks()});
    } catch (const std::bad_alloc&) {
      return;  // the event is lost too
    }
  }
  // An event that came when the session had ended, or for which there was no room.
  void keep_late(void* event) noexcept {
    const std::lock_guard lock(mutex);
    try {
      late.push_back(event);
    } catch (const std::bad_alloc&) {
      return;  // the event is lost too
    }
  }
  void write_pieces() noexcept;
  // False once nothing was read for as long as `patience`, or some times that in all: a device that hangs, or
  // takes too long to tell of its events.
  [[nodiscard]] bool wait_until_done(std::chrono::milliseconds patience) noexcept {
    constexpr int kMaxWaits = 6;
    std::unique_lock results(mutex);
    std::size_t before = 0;
    for (int i = 0; i < kMaxWaits; ++i) {
      if (done_signal.wait_for(results, patience, [this]() noexcept { return is_done; })) {
        return true;
      }
      const std::size_t now = boundaries_read.load(std::memory_order_relaxed);
      if (now == before) {
        return false;
      }
      before = now;
    }
    return false;
  }

  const torchprof_device_events& events;
  DeviceLog& log;
  std::vector<Boundary> boundaries;
  std::vector<DeviceOrigin> origins;
  std::size_t ops = 0;

  std::atomic<bool> is_given_up{false};
  std::atomic<std::size_t> boundaries_read{0};
  std::mutex mutex;  // of what follows
  std::condition_variable done_signal;
  bool is_done = false;
  bool is_device_well = false;  // known when all is done
  std::uint64_t written = 0;
  std::uint64_t lost = 0;
  std::vector<void*> late;
};

void EventTimer::Session::write_pieces() noexcept {
  std::uint64_t pieces = 0;
  std::uint64_t missing = boundaries.size();
  try {
    std::stable_sort(boundaries.begin(), boundaries.end(), [](const Boundary& a, const Boundary& b) noexcept {
      return a.os_thread_id < b.os_thread_id;
    });
    PieceWriter writer(events, origins, log, is_given_up, boundaries_read);
    for (auto first = boundaries.begin(); first != boundaries.end();) {
      const auto last = std::find_if(first, boundaries.end(), [first](const Boundary& boundary) noexcept {
        return boundary.os_thread_id != first->os_thread_id;
      });
      writer.write_thread(std::span<const Boundary>(first, last));
      first = last;
    }
    pieces = writer.written();
    missing = writer.lost();
  } catch (const std::bad_alloc&) {
    missing = boundaries.size();
  }
  const bool is_well = events.synchronize() == TORCHPROF_OK;
  {
    const std::lock_guard lock(mutex);
    is_device_well = is_well;
    written = pieces;
    lost = missing;
    is_done = true;
  }
  done_signal.notify_all();
}

EventTimer& EventTimer::of(const torchprof_device_events& events) {
  static std::mutex mutex;
  static auto* const timers = new std::map<const torchprof_device_events*, EventTimer>;
  const std::lock_guard lock(mutex);
  return timers->try_emplace(&events, events).first->second;
}

EventTimer::EventTimer(const torchprof_device_events& events, std::size_t max_ops,
                       std::chrono::milliseconds stop_timeout) noexcept
    : events_(events), max_ops_(max_ops), stop_timeout_(stop_timeout) {}

void EventTimer::start(const DeviceOptions&, DeviceLog& log) {
  if (process_id_ != 0 && process_id_ != this_process()) {
    throw DeviceRefused("a parent of this process timed the device, which no child can use: spawn, not fork");
  }
  const std::lock_guard lock(mutex_);
  if (session_ != nullptr) {
    throw DeviceRefused("another capture times the device by events: stop that first");
  }
  auto session = std::make_shared<Session>(events_, log);
  // What was launched before ends first, so that the event's time is now.
  std::int32_t device = -1;
  void* const event = events_.synchronize() == TORCHPROF_OK ? events_.record(&device) : nullptr;
  if (event == nullptr) {
    throw DeviceRefused("the device takes no events: see whether the program can use it without a profiler");
  }
  session->origins.push_back({.device = device, .event = event, .ticks = ticks()});
  process_id_ = this_process();
  counts_ = {};
  is_recording_ = true;
  session_ = std::move(session);
}

bool EventTimer::mark(Session& session, std::uint64_t op, std::size_t ended) noexcept {
  Boundary boundary{.event = nullptr,
                    .op = op,
                    .ended = static_cast<std::uint32_t>(ended),
                    .os_thread_id = current_thread->os_thread_id,
                    .device = -1};
  boundary.event = events_.record(&boundary.device);
  const std::lock_guard lock(mutex_);
  if (session_.get() == &session) {
    if (boundary.event != nullptr && !session.knows(boundary.device)) {
      session.add_origin(boundary.device);
    }
    try {
      session.boundaries.push_back(boundary);
      return true;
    } catch (const std::bad_alloc&) {
      session.ops = max_ops_;  // no more begin
    }
  }
  session.keep_late(boundary.event);
  return false;
}

bool EventTimer::push(std::uint64_t id) noexcept {
  std::shared_ptr<Session> session;
  {
    const std::lock_guard lock(mutex_);
    session = session_;
    if (session == nullptr || !is_recording_) {
      return false;
    }
    if (session->ops >= max_ops_) {
      session->log.count_drops(DropReason::kDeviceDropped, 1);
      return false;
    }
    ++session->ops;
  }
  return mark(*session, id, 0);
}

void EventTimer::pop(std::size_t count) noexcept {
  std::shared_ptr<Session> session;
  {
    const std::lock_guard lock(mutex_);
    session = session_;
  }
  if (session != nullptr) {
    mark(*session, 0, count);
  }
}

void EventTimer::set_recording(bool wanted) {
  const std::lock_guard lock(mutex_);
  is_recording_ = wanted;
}

bool EventTimer::stop() noexcept {
  std::shared_ptr<Session> session;
  {
    const std::lock_guard lock(mutex_);
    session = std::exchange(session_, nullptr);
  }
  if (session == nullptr) {
    return true;
  }
  // Waiting for a device that hangs must not hang the program.
  std::thread writer;
  try {
    const BlockedSignals blocked;
    writer = std::thread([session]() noexcept { session->write_pieces(); });
    ::pthread_setname_np(writer.native_handle(), kThreadName);
  } catch (const std::system_error&) {
    session->log.count_drops(DropReason::kDeviceDropped, session->boundaries.size());
    return true;
  }
  if (!session->wait_until_done(stop_timeout_)) {
    writer.detach();
    session->is_given_up.store(true, std::memory_order_relaxed);
    const std::size_t read = session->boundaries_read.load(std::memory_order_relaxed);
    session->log.count_drops(DropReason::kDeviceDropped, session->boundaries.size() - read);
    return false;
  }
  writer.join();
  session->log.count_drops(DropReason::kDeviceDropped, session->lost);
  const std::lock_guard lock(mutex_);
  counts_.kernels = session->written;
  return true;
}

DeviceCounts EventTimer::counts() const noexcept {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace torchprof::device_events
