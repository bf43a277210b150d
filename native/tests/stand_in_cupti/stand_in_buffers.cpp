// The records of the stand-in, and the thread that puts them into buffers.
#include <utility>

#include "stand_in_state.h"

namespace torchprof::stand_in {

StandIn& stand_in() {
  static auto* const instance = new StandIn;
  return *instance;
}

std::vector<std::uint64_t>& pushed() {
  thread_local std::vector<std::uint64_t> ids;
  return ids;
}

int called(const char* function) {
  StandIn& self = stand_in();
  const std::lock_guard lock(self.mutex);
  ++self.calls[function];
  const auto failure = self.failures.find(function);
  return failure == self.failures.end() ? kSuccess : failure->second;
}

std::size_t size_of(ActivityKind kind, std::uint32_t version) {
  constexpr std::uint32_t k12_4 = 22;
  constexpr std::uint32_t k12_8 = 26;
  constexpr std::uint32_t k13_0 = 130'000;
  constexpr std::uint32_t k13_1 = 130'100;
  constexpr std::uint32_t k13_3 = 130'300;
  constexpr std::uint32_t k13_4 = 130'400;
  switch (kind) {
    case ActivityKind::kConcurrentKernel:
      return version >= k13_4   ? 248
             : version >= k13_3 ? 232
             : version >= k13_1 ? 224
             : version >= k13_0 ? 216
                                : 208;
    case ActivityKind::kMemcpy:
      return version >= k13_4 ? 112 : version >= k12_8 ? 96 : 88;
    case ActivityKind::kMemset:
      return version >= k13_4 ? 104 : 88;
    case ActivityKind::kSynchronization:
      return version >= k12_8 ? 56 : 40;
    case ActivityKind::kOverhead:
      return version >= k12_4 ? 56 : 40;
    case ActivityKind::kMemcpy2:
      return 96;
    case ActivityKind::kGraphTrace:
      return 56;
    case ActivityKind::kExternalCorrelation:
      return 24;
    default:
      return 40;
  }
}

Record record_of(ActivityKind kind) {
  Record record(size_of(kind, stand_in().version.load()), std::byte{0});
  set(record, kKind, kind);
  return record;
}

bool is_enabled(ActivityKind kind) {
  StandIn& self = stand_in();
  const std::lock_guard lock(self.mutex);
  return self.enabled.contains(static_cast<std::uint32_t>(kind));
}

namespace {

bool is_unfinished(const Record& record) {
  return field<ActivityKind>(record.data(), kKind) == ActivityKind::kConcurrentKernel &&
         field<std::uint64_t>(record.data(), kernel::kStart) != 0 &&
         field<std::uint64_t>(record.data(), kernel::kEnd) == 0;
}

// As a buffer is filled: without the lock where the other side is called.
void work(std::unique_lock<std::mutex>& lock, StandIn& self) {
  const auto complete = [&] {
    const HeldBuffer buffer = std::exchange(self.current, {});
    const std::size_t valid_bytes = std::exchange(self.filled_bytes, 0);
    self.holds_unfinished = false;
    const CompleteBuffer callback = self.complete;
    lock.unlock();
    callback(nullptr, 0, buffer.data, buffer.size_bytes, valid_bytes);
    lock.lock();
  };
  while (!self.records.empty()) {
    const Record record = std::move(self.records.front());
    self.records.pop_front();
    if (self.current.data != nullptr && self.filled_bytes + record.size() > self.current.size_bytes)
      complete();
    if (self.current.data == nullptr) {
      const RequestBuffer callback = self.request;
      HeldBuffer buffer{};
      std::size_t max_records = 1;
      lock.unlock();
      callback(&buffer.data, &buffer.size_bytes, &max_records);
      lock.lock();
      if (buffer.data == nullptr) {
        ++self.dropped;
        continue;
      }
      self.current = buffer;
    }
    std::memcpy(self.current.data + self.filled_bytes, record.data(), record.size());
    self.filled_bytes += record.size();
    self.holds_unfinished |= is_unfinished(record);
  }
  if (self.wants_completion) {
    self.wants_completion = false;
    // An empty buffer goes back too, as CUPTI's do.
    if (self.current.data != nullptr) complete();
  }
}

void run() {
  StandIn& self = stand_in();
  std::unique_lock lock(self.mutex);
  while (true) {
    self.changed.wait(lock,
                      [&] { return !self.records.empty() || self.wants_completion || self.worker_ends; });
    if (self.records.empty() && !self.wants_completion) return;
    self.busy = true;
    work(lock, self);
    self.busy = false;
    self.changed.notify_all();
  }
}

}  // namespace

void settle(bool complete) {
  StandIn& self = stand_in();
  std::unique_lock lock(self.mutex);
  if (self.worker.joinable()) {
    self.wants_completion = self.wants_completion || complete;
    self.changed.notify_all();
    self.changed.wait(lock, [&] { return self.records.empty() && !self.busy && !self.wants_completion; });
  }
}

void end_worker() {
  StandIn& self = stand_in();
  std::thread worker;
  {
    const std::lock_guard lock(self.mutex);
    self.worker_ends = true;
    self.changed.notify_all();
    worker.swap(self.worker);
  }
  if (worker.joinable()) worker.join();
  const std::lock_guard lock(self.mutex);
  self.worker_ends = false;
}

void emit(Record record) {
  StandIn& self = stand_in();
  const std::lock_guard lock(self.mutex);
  if (!self.subscribed) return;
  self.records.push_back(std::move(record));
  if (!self.worker.joinable()) self.worker = std::thread(run);
  self.changed.notify_all();
}

}  // namespace torchprof::stand_in
