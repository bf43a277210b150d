#include "core/counter_log.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/blocked_signals.h"
#include "core/clock.h"

namespace torchprof {
namespace {

constexpr std::chrono::milliseconds kLookEvery{20};
// Threads come in teams: after one the next is looked for at once.
constexpr std::chrono::milliseconds kLookAgain{1};
// What our own threads cost is not the program's.
constexpr std::string_view kOurThreads = "torchprof-";
constexpr const char* kWatcherName = "torchprof-count";

}  // namespace

// Kept until the thread has ended and holds on to nothing here.
struct CounterLog::CountedThread {
  std::uint32_t os_thread_id = 0;
  std::uint32_t ordinal = 0;
  // Without any a thread is known, but not counted.
  std::unique_ptr<ThreadCounters> counters = nullptr;
  std::optional<EventCounters> events = std::nullopt;
  CounterReading last = {};
};

CounterLog::CounterLog(ActiveRecording& recording, std::unique_ptr<CounterSource> source,
                       std::span<const std::string> names)
    : recording_(recording), source_(std::move(source)), records_(recording, names) {}

CounterLog::~CounterLog() {
  stop();
  marks_.close(recording_.arena());
}

void CounterLog::start() {
  const std::lock_guard lock(mutex_);
  if (const int error = tasks_.open(); error != 0) {
    throw std::system_error(error, std::generic_category(), "cannot list the threads to count");
  }
  meet_threads();
  const BlockedSignals blocked;
  try {
    watcher_ = std::thread([this]() noexcept { watch(); });
    ::pthread_setname_np(watcher_.native_handle(), kWatcherName);  // before anybody meets it
  } catch (const std::system_error&) {
    watcher_ = {};  // threads are met at boundaries then
  }
}

void CounterLog::watch() noexcept {
  std::unique_lock lock(mutex_);
  std::chrono::milliseconds pause = kLookAgain;
  while (!stopped_) {
    const bool is_woken =
        watch_signal_.wait_for(lock, pause, [this]() noexcept { return stopped_ || has_met_; });
    if (!is_woken) {
      meet_threads();
    }
    pause = has_met_ ? kLookAgain : std::min(2 * pause, kLookEvery);
    has_met_ = false;
  }
}

void CounterLog::mark() noexcept {
  const std::lock_guard lock(mutex_);
  if (stopped_) {
    return;
  }
  meet_threads();
  for (const auto& thread : threads_) {
    mark_thread(*thread);
  }
}

void CounterLog::stop() noexcept {
  mark();
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  watch_signal_.notify_all();
  if (watcher_.joinable()) {
    watcher_.join();
  }
}

EventCounters* CounterLog::join(std::uint32_t os_thread_id, std::uint32_t ordinal) noexcept {
  const std::lock_guard lock(mutex_);
  if (stopped_) {
    return nullptr;
  }
  CountedThread* thread = find(os_thread_id);
  // Met just now, before it had said its ordinal; or one that has ended, whose id the system gave again.
  if (thread != nullptr && thread->ordinal != ordinal && !(thread->events && thread->events->is_held())) {
    mark_thread(*thread);
    threads_.erase(place_of(os_thread_id));
    thread = nullptr;
  }
  if (thread == nullptr) {
    thread = add(os_thread_id, ordinal);
    watch_signal_.notify_all();
  }
  if (thread == nullptr || !thread->events) {
    return nullptr;
  }
  thread->events->hold();
  return &*thread->events;
}

// Under the lock: adds the threads that are new and takes leave of those that have ended.
void CounterLog::meet_threads() noexcept {
  if (!tasks_.read(listed_)) {
    return;
  }
  const auto has_ended = [this](const CountedThread& thread) noexcept {
    return !std::binary_search(listed_.begin(), listed_.end(), thread.os_thread_id);
  };
  for (const auto& thread : threads_) {
    if (has_ended(*thread)) {
      mark_thread(*thread);
    }
  }
  std::erase_if(threads_, [&](const std::unique_ptr<CountedThread>& thread) noexcept {
    return has_ended(*thread) && !(thread->events && thread->events->is_held());
  });
  for (const std::uint32_t id : listed_) {
    if (find(id) != nullptr) {
      continue;
    }
    const TaskList::Name name = tasks_.name_of(id);
    const bool is_ours = std::string_view(name.data()).starts_with(kOurThreads);
    add(id, is_ours ? 0 : recording_.ordinal_of_thread(id, name.data()));
  }
}

CounterLog::Threads::iterator CounterLog::place_of(std::uint32_t os_thread_id) noexcept {
  return std::lower_bound(
      threads_.begin(), threads_.end(), os_thread_id,
      [](const auto& thread, std::uint32_t id) noexcept { return thread->os_thread_id < id; });
}

CounterLog::CountedThread* CounterLog::find(std::uint32_t os_thread_id) noexcept {
  const auto place = place_of(os_thread_id);
  return place != threads_.end() && (*place)->os_thread_id == os_thread_id ? place->get() : nullptr;
}

// Without an ordinal the thread is noted only, so as not to be met again. nullptr without memory.
CounterLog::CountedThread* CounterLog::add(std::uint32_t os_thread_id, std::uint32_t ordinal) noexcept {
  try {
    auto thread = std::make_unique<CountedThread>();
    thread->os_thread_id = os_thread_id;
    thread->ordinal = ordinal;
    if (ordinal != 0) {
      thread->counters = source_->open(os_thread_id);
      if (thread->counters == nullptr) {
        recording_.count_drops(DropReason::kNotCounted);
      } else {
        thread->events.emplace(recording_, records_, *thread->counters, ordinal);
      }
    }
    has_met_ = true;
    return threads_.insert(place_of(os_thread_id), std::move(thread))->get();
  } catch (const std::bad_alloc&) {
    recording_.count_drops(DropReason::kNotCounted);
    return nullptr;
  }
}

// A thread that did not run has no record. Without room for one the next says what this would have.
void CounterLog::mark_thread(CountedThread& thread) noexcept {
  CounterReading now;
  if (thread.counters == nullptr) {
    return;
  }
  if (!thread.counters->read(now)) {
    recording_.count_drops(DropReason::kNotCounted);
    return;
  }
  if (now.enabled_ns == thread.last.enabled_ns && now.values == thread.last.values) {
    return;
  }
  if (records_.write(marks_, {.time = ticks(), .event = -1, .track = thread.ordinal}, thread.last, now)) {
    thread.last = now;
  }
}

}  // namespace torchprof
