#include "sources/perf_events/perf_source.h"

#include <errno.h>
#include <linux/perf_event.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <stdexcept>

#include "sources/perf_events/refusal.h"
#include "sources/perf_events/thread_group.h"

namespace torchprof::perf {
namespace {

constexpr std::string_view kUserOnly = "user space only: the kernel is not permitted to be counted";

bool is_forbidden(int error) { return error == EACCES || error == EPERM; }

// Happens in the kernel alone: counted in user space it would always be 0.
bool is_of_kernel(const Event& event) {
  if (event.type != PERF_TYPE_SOFTWARE) return false;
  switch (event.config) {
    case PERF_COUNT_SW_CONTEXT_SWITCHES:
    case PERF_COUNT_SW_CPU_MIGRATIONS:
    case 11:  // PERF_COUNT_SW_CGROUP_SWITCHES
      return true;
    default:
      return false;
  }
}

bool works_alone(const Event& event, const PerfApi& api) { return ThreadGroup(api).add(event, 0) == 0; }

// Adds the event, in user space only where more is not permitted: what it then is, is left in `event`.
CounterState add(ThreadGroup& group, const std::string& name, Event& event, const PerfApi& api) {
  int error = group.add(event, 0);
  if (error == 0) return {.name = name, .counts = true, .remark = {}};
  if (is_forbidden(error) && !event.has_modifiers && !is_of_kernel(event)) {
    Event in_user = event;
    in_user.in_kernel = in_user.in_hypervisor = false;
    if (group.add(in_user, 0) == 0) {
      event = in_user;
      return {.name = name, .counts = true, .remark = std::string(kUserOnly)};
    }
  }
  const bool alone = group.size() != 0 && works_alone(event, api);
  return {.name = name, .counts = false, .remark = refusal(error, event, alone, api)};
}

}  // namespace

std::unique_ptr<ThreadCounters> PerfSource::open(std::uint32_t os_thread_id) noexcept {
  std::unique_ptr<ThreadGroup> group(new (std::nothrow) ThreadGroup(api_));
  if (group == nullptr) return nullptr;
  for (const Event& event : events_) {
    if (group->add(event, static_cast<pid_t>(os_thread_id)) != 0) return nullptr;
  }
  group->map_pages();
  return group;
}

ChosenCounters choose_counters(const std::vector<std::string>& names, const PerfApi& api) {
  ChosenCounters chosen;
  std::vector<Event> events;
  ThreadGroup trial(api);
  for (const std::string& name : names) {
    const auto is_same = [&name](const CounterState& state) { return state.name == name; };
    if (std::any_of(chosen.states.begin(), chosen.states.end(), is_same)) continue;
    if (events.size() == kMaxCounters) {
      chosen.states.push_back(
          {.name = name,
           .counts = false,
           .remark = "at most " + std::to_string(kMaxCounters) + " counters count at once; ask for fewer"});
      continue;
    }
    try {
      Event event = parse_event(name, api.devices);
      chosen.states.push_back(add(trial, name, event, api));
      if (!chosen.states.back().counts) continue;
      events.push_back(event);
      chosen.names.push_back(name);
    } catch (const std::invalid_argument& error) {
      chosen.states.push_back({.name = name, .counts = false, .remark = error.what()});
    }
  }
  if (!events.empty()) {
    trial.map_pages();
    chosen.reads_without_kernel = trial.reads_without_kernel();
    chosen.source = std::make_unique<PerfSource>(api, std::move(events));
  }
  return chosen;
}

double measure_read_ns(PerfSource& source) {
  constexpr int kReads = 1000;
  const std::unique_ptr<ThreadCounters> counters = source.open(0);  // of the calling thread
  if (counters == nullptr) return 0;
  CounterReading reading;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kReads; ++i) static_cast<void>(counters->read_own(reading));
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  return took.count() / kReads;
}

}  // namespace torchprof::perf
