// What the parts of the stand-in for libcupti share: see stand_in_cupti.cpp.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "sources/cupti/cupti_api.h"
#include "sources/cupti/record_layout.h"

#define STAND_IN extern "C" __attribute__((visibility("default")))

namespace torchprof::stand_in {

using namespace torchprof::cupti;  // NOLINT(google-build-using-namespace)

using Record = std::vector<std::byte>;

struct HeldBuffer {
  std::uint8_t* data;
  std::size_t size_bytes;
};

struct StandIn {
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<std::uint32_t> version{130'000};
  std::map<std::string, int> failures;
  std::map<std::string, std::uint64_t> calls;
  std::set<std::uint32_t> enabled;
  std::set<std::uint32_t> driver_calls;
  std::set<std::uint32_t> muted_runtime_calls;
  RequestBuffer request = nullptr;
  CompleteBuffer complete = nullptr;
  bool subscribed = false;
  bool hangs = false;
  bool holds_unfinished = false;  // the current buffer
  std::size_t dropped = 0;
  std::uint32_t thread_id_type = 0;
  std::uint32_t last_correlation = 0;
  std::deque<Record> records;
  std::vector<HeldBuffer> held;
  HeldBuffer current{};
  std::size_t filled_bytes = 0;
  bool busy = false;
  bool wants_completion = false;
  std::thread worker;  // while somebody is subscribed and work was done
  bool worker_ends = false;
};

// The one there is; never destroyed.
StandIn& stand_in();
// The ids that this thread has pushed.
std::vector<std::uint64_t>& pushed();

// Counts the call; the result it was told to return.
int called(const char* function);
// Of a record, in bytes.
std::size_t size_of(ActivityKind kind, std::uint32_t version);
bool is_enabled(ActivityKind kind);

template <typename T>
void set(Record& record, std::size_t offset, T value) {
  std::memcpy(record.data() + offset, &value, sizeof(value));
}
Record record_of(ActivityKind kind);
// Into a buffer, on the thread of the stand-in, while somebody is subscribed.
void emit(Record record);
// Waits until all that was emitted is in buffers, and these handed over if `complete`.
void settle(bool complete);
// Ends the thread: a process that forks later has one less.
void end_worker();

}  // namespace torchprof::stand_in
