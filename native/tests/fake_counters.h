// Counters that count what a test tells them to.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/counter_source.h"
#include "core/recording.h"

namespace torchprof::testing {

// What all threads have counted, by the id that the system gives a thread. Outlives the captures that read
// it.
class FakeCounts {
 public:
  struct Thread {
    std::atomic<std::uint64_t> value{0};
    std::atomic<std::uint64_t> enabled_ns{0};
    std::atomic<std::uint64_t> running_ns{0};
    std::atomic<bool> readable{true};

    // Counts `value` in as many ns, of which the counter had its turn in `running_ns`.
    void count(std::uint64_t counted, std::uint64_t running) {
      value += counted;
      enabled_ns += counted;
      running_ns += running;
    }
    void count(std::uint64_t counted) { count(counted, counted); }
  };

  Thread& of(std::uint32_t os_thread_id) {
    const std::lock_guard lock(mutex_);
    return threads_[os_thread_id];
  }
  // Threads whose counters cannot be opened.
  std::atomic<bool> refuses{false};
  std::atomic<int> open{0};

 private:
  std::mutex mutex_;
  std::map<std::uint32_t, Thread> threads_;
};

class FakeSource final : public CounterSource {
 public:
  explicit FakeSource(FakeCounts& counts) : counts_(counts) {}

  std::unique_ptr<ThreadCounters> open(std::uint32_t os_thread_id) noexcept override {
    if (counts_.refuses) return nullptr;
    return std::make_unique<Counters>(counts_, counts_.of(os_thread_id));
  }

 private:
  class Counters final : public ThreadCounters {
   public:
    Counters(FakeCounts& counts, FakeCounts::Thread& thread) : counts_(counts), thread_(thread) {
      ++counts_.open;
    }
    ~Counters() override { --counts_.open; }
    Counters(const Counters&) = delete;
    Counters& operator=(const Counters&) = delete;

    bool read(CounterReading& reading) noexcept override {
      reading.values[0] = thread_.value;
      reading.values[1] = 2 * thread_.value;
      reading.enabled_ns = thread_.enabled_ns;
      reading.running_ns = thread_.running_ns;
      return thread_.readable;
    }
    bool read_own(CounterReading& reading) noexcept override { return read(reading); }

   private:
    FakeCounts& counts_;
    FakeCounts::Thread& thread_;
  };

  FakeCounts& counts_;
};

inline const std::vector<std::string> kFakeNames{"beats", "double-beats"};

// The values of a counter in order of time: of an event, or with -1 of threads.
inline std::vector<double> values_of(const Recording& recording, std::string_view name, std::int64_t event,
                                     std::string_view series = "count") {
  std::vector<double> values;
  for (const CounterRecord& counter : recording.counters) {
    if (counter.event != event || recording.strings.name(counter.name) != name) continue;
    if (recording.strings.overload(counter.name) == series) values.push_back(counter.value);
  }
  return values;
}

}  // namespace torchprof::testing
