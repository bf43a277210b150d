// The counters of one capture, on every thread of the process, whether it records ops or not.
//
// At each boundary (a step begins or ends, a thread has ended, the capture stops) a record says what a thread
// counted since its boundary before: so the records of a thread add up to all it counted, and those inside a
// step to what it counted in the step. What a thread counts over single events is EventCounters' matter.
//
// Threads are met where they first record an op, at boundaries, and by a thread that looks every 1 to 20
// ms: those of OpenMP never record one, and do most of the work.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/active_recording.h"
#include "core/chunk_cursor.h"
#include "core/counter_records.h"
#include "core/counter_source.h"
#include "core/event_counters.h"
#include "core/task_list.h"

namespace torchprof {

class CounterLog {
 public:
  CounterLog(ActiveRecording& recording, std::unique_ptr<CounterSource> source,
             std::span<const std::string> names);
  // Once no thread is inside a hook of the capture.
  ~CounterLog();
  CounterLog(const CounterLog&) = delete;
  CounterLog& operator=(const CounterLog&) = delete;

  // Counts on all threads there are and those that come. Throws std::system_error when they cannot be listed.
  void start();
  // A boundary.
  void mark() noexcept;
  // The last boundary; idempotent. Counters stay open: a hook may be reading them.
  void stop() noexcept;

  // For the calling thread, which records events: its counters, held; nullptr when they could not be opened.
  // `ordinal`: the thread's in the recording.
  EventCounters* join(std::uint32_t os_thread_id, std::uint32_t ordinal) noexcept;

 private:
  struct CountedThread;
  using Threads = std::vector<std::unique_ptr<CountedThread>>;

  void watch() noexcept;
  void meet_threads() noexcept;
  [[nodiscard]] Threads::iterator place_of(std::uint32_t os_thread_id) noexcept;
  [[nodiscard]] CountedThread* find(std::uint32_t os_thread_id) noexcept;
  CountedThread* add(std::uint32_t os_thread_id, std::uint32_t ordinal) noexcept;
  void mark_thread(CountedThread& thread) noexcept;

  ActiveRecording& recording_;
  std::unique_ptr<CounterSource> source_;
  CounterRecords records_;

  std::mutex mutex_;  // of everything below; held over system calls, and by no hook but a thread's first
  Threads threads_;   // by id
  std::vector<std::uint32_t> listed_;
  TaskList tasks_;
  ChunkCursor marks_{ChunkKind::kCounters, sizeof(CounterRecord)};
  bool stopped_ = false;
  bool has_met_ = false;  // a thread since the watcher looked last
  std::condition_variable watch_signal_;
  std::thread watcher_;
};

}  // namespace torchprof
