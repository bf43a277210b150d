// The counters of one thread: one group, so that the kernel counts all of them or none at any moment.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/counter_source.h"
#include "sources/perf_events/event_name.h"
#include "sources/perf_events/perf_api.h"

namespace torchprof::perf {

// What perf_event_open takes of an event, to be opened into a group.
[[nodiscard]] perf_event_attr attributes_of(const Event& event) noexcept;

class ThreadGroup final : public ThreadCounters {
 public:
  explicit ThreadGroup(const PerfApi& api) noexcept : api_(api) {}
  ~ThreadGroup() override;
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  // Adds an event to the group of a thread (0: the calling one). Returns 0, or an errno value and the group
  // is as it was.
  int add(const Event& event, pid_t thread) noexcept;
  // Maps what reading without the kernel takes; where that is not to be had, `read_own` asks the kernel.
  void map_pages() noexcept;
  [[nodiscard]] bool reads_without_kernel() const noexcept { return !pages_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return descriptors_.size(); }

  bool read(CounterReading& reading) noexcept override;
  bool read_own(CounterReading& reading) noexcept override;

 private:
  [[nodiscard]] bool read_pages(CounterReading& reading) const noexcept;
  void unmap_pages() noexcept;

  const PerfApi& api_;
  std::vector<int> descriptors_;              // the first leads the group
  std::vector<perf_event_mmap_page*> pages_;  // of each, or none at all
};

}  // namespace torchprof::perf
