// Counters from perf_event_open(2).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/counter_source.h"
#include "sources/perf_events/event_name.h"
#include "sources/perf_events/perf_api.h"

namespace torchprof::perf {

class PerfSource final : public CounterSource {
 public:
  PerfSource(const PerfApi& api, std::vector<Event> events) : api_(api), events_(std::move(events)) {}

  std::unique_ptr<ThreadCounters> open(std::uint32_t os_thread_id) noexcept override;

 private:
  const PerfApi& api_;
  std::vector<Event> events_;
};

// What became of a counter that was asked for.
struct CounterState {
  std::string name;
  bool counts = false;
  std::string remark;  // why it does not count, or what it counts less than asked for; empty = nothing to say
};

struct ChosenCounters {
  std::vector<CounterState> states;  // one a name, in their order
  std::vector<std::string> names;    // of those that count
  std::unique_ptr<PerfSource> source;
  bool reads_without_kernel = false;
};

// Tries the counters on the calling thread. A name that comes twice counts once. `api` must outlive the
// source.
[[nodiscard]] ChosenCounters choose_counters(const std::vector<std::string>& names,
                                             const PerfApi& api = system_api());

// What it costs the calling thread to read its own counters; 0 when they cannot be opened.
[[nodiscard]] double measure_read_ns(PerfSource& source);

}  // namespace torchprof::perf
