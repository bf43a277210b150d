#include "core/active_recording.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>
#include <stdexcept>
#include <utility>

#include "core/clock.h"
#include "core/counter_log.h"
#include "core/populator.h"
#include "core/process_identity.h"

namespace torchprof {
namespace {

std::atomic<std::uint64_t> last_id{0};

// A capture of microseconds waits here until its two calibration pairs are far enough apart.
void sleep_briefly() noexcept {
  const timespec time{.tv_sec = 0, .tv_nsec = kMinCalibrationNs / 4};
  static_cast<void>(::nanosleep(&time, nullptr));
}

}  // namespace

ActiveRecording::ActiveRecording(const std::string& path, std::uint64_t cap_bytes)
    : id_(last_id.fetch_add(1, std::memory_order_relaxed) + 1),
      arena_(path, cap_bytes),
      strings_(arena_),
      threads_(ChunkKind::kThreads, sizeof(ThreadRecord)),
      steps_(ChunkKind::kSteps, sizeof(StepRecord)),
      span_links_(ChunkKind::kPayload, 1),
      metadata_(ChunkKind::kMetadata, 1),
      tensor_roles_(ChunkKind::kTensorRoles, sizeof(TensorRoleRecord)),
      contexts_(ChunkKind::kContexts, sizeof(ContextRecord)) {
  FileHeader& header = arena_.header();
  header.clock_source = static_cast<std::uint32_t>(clock_source());
  header.process_id = static_cast<std::uint64_t>(::getpid());
  header.process_instance = process_instance();
  begin_clock();
}

ActiveRecording::~ActiveRecording() = default;

void ActiveRecording::begin_clock() noexcept {
  FileHeader& header = arena_.header();
  header.clock_start = read_clock_pair();
  header.clock_latest = header.clock_start;
}

void ActiveRecording::finish() noexcept {
  {
    const std::lock_guard lock(mutex_);
    close_step(ticks(), kStepPartial | kStepUnfinished);
    finished_ = true;
  }
  FileHeader& header = arena_.header();
  while (!refresh_calibration(header)) {
    sleep_briefly();
  }
  header.state.store(static_cast<std::uint32_t>(RecordingState::kStopped), std::memory_order_release);
  arena_.finish();
}

ThreadRecord* ActiveRecording::add_thread(std::uint32_t ordinal, std::uint32_t os_thread_id, const char* name,
                                          DropReason& failure) noexcept {
  const std::lock_guard lock(mutex_);
  return add_thread_locked(ordinal, os_thread_id, name, failure);
}

ThreadRecord* ActiveRecording::add_thread_locked(std::uint32_t ordinal, std::uint32_t os_thread_id,
                                                 const char* name, DropReason& failure) noexcept {
  std::byte* room = threads_.reserve(arena_, sizeof(ThreadRecord));
  if (room == nullptr) {
    failure = threads_.failure();
    return nullptr;
  }
  auto* record = new (room) ThreadRecord{};
  record->ordinal = ordinal;
  record->os_thread_id = os_thread_id;
  record->first_ticks = ticks();
  std::strncpy(static_cast<char*>(record->name), name, sizeof(record->name) - 1);
  threads_.commit_record(sizeof(ThreadRecord));
  try {
    thread_records_.push_back(record);
  } catch (const std::bad_alloc&) {
    return record;  // it keeps the system's name
  }
  return record;
}

std::uint32_t ActiveRecording::ordinal_of_thread(std::uint32_t os_thread_id, const char* name) noexcept {
  const std::lock_guard lock(mutex_);
  // Ids are used again: the latest thread with this one is meant.
  const auto known = std::find_if(
      thread_records_.rbegin(), thread_records_.rend(),
      [os_thread_id](const ThreadRecord* record) noexcept { return record->os_thread_id == os_thread_id; });
  if (known != thread_records_.rend()) {
    return (*known)->ordinal;
  }
  DropReason failure{};
  try {
    unclaimed_.reserve(unclaimed_.size() + 1);
  } catch (const std::bad_alloc&) {
    return 0;
  }
  ThreadRecord* record = add_thread_locked(next_thread_ordinal(), os_thread_id, name, failure);
  if (record == nullptr) {
    count_drops(failure);
    return 0;
  }
  unclaimed_.push_back(record);
  return record->ordinal;
}

std::uint32_t ActiveRecording::claim_ordinal(std::uint32_t os_thread_id, const char* name,
                                             ThreadRecord*& record) noexcept {
  const std::lock_guard lock(mutex_);
  const auto made = std::find_if(
      unclaimed_.begin(), unclaimed_.end(),
      [os_thread_id](const ThreadRecord* thread) noexcept { return thread->os_thread_id == os_thread_id; });
  if (made != unclaimed_.end()) {
    record = *made;
    unclaimed_.erase(made);
    return record->ordinal;
  }
  const std::uint32_t ordinal = next_thread_ordinal();
  // At once, where somebody may ask for the ordinal of this thread before it has recorded its first event.
  DropReason failure{};
  record = counters() != nullptr ? add_thread_locked(ordinal, os_thread_id, name, failure) : nullptr;
  return ordinal;
}

void ActiveRecording::name_thread(std::uint32_t os_thread_id, std::string_view name) noexcept {
  const std::lock_guard lock(mutex_);
  if (finished_) {
    return;
  }
  for (ThreadRecord* record : thread_records_) {
    if (record->os_thread_id == os_thread_id) {
      const std::size_t name_bytes = std::min(name.size(), sizeof(record->name) - 1);
      char* const end = std::copy_n(name.data(), name_bytes, static_cast<char*>(record->name));
      std::fill(end, std::end(record->name), '\0');
    }
  }
}

void ActiveRecording::close_step(std::uint64_t end_ticks, std::uint8_t flags) noexcept {
  if (open_step_ != nullptr) {
    open_step_->flags |= flags;
    open_step_->end_ticks.store(end_ticks, std::memory_order_release);
    open_step_ = nullptr;
  }
}

std::uint32_t ActiveRecording::write_links_locked(std::string_view links) noexcept {
  if (links.empty()) {
    return 0;
  }
  std::byte* room = span_links_.reserve(arena_, links.size());
  if (room == nullptr) {
    count_drops(span_links_.failure());
    return 0;
  }
  std::memcpy(room, links.data(), links.size());
  span_links_.commit_bytes(links.size());
  return static_cast<std::uint32_t>(arena_.offset_of(room) / kPayloadAlignBytes);
}

void ActiveRecording::begin_step(const StepStart& start, std::uint32_t thread) noexcept {
  const std::lock_guard lock(mutex_);
  if (finished_) {
    return;
  }
  const std::uint64_t now = ticks();
  close_step(now, 0);
  std::byte* room = steps_.reserve(arena_, sizeof(StepRecord));
  if (room == nullptr) {
    count_drops(steps_.failure());
    return;
  }
  auto* record = new (room) StepRecord{};
  record->start_ticks = now;
  record->number = start.number;
  record->thread = thread;
  record->phase = static_cast<std::uint8_t>(start.phase);
  record->flags = start.flags;
  if (start.number >= 0) {
    record->flags |= kStepHasNumber;
  }
  if (start.context.size() == kContextBytes) {
    constexpr std::size_t kTraceIdBytes = sizeof(record->context_trace_id);
    record->context_trace_flags = start.trace_flags;
    std::memcpy(static_cast<void*>(record->context_trace_id), start.context.data(), kTraceIdBytes);
    std::memcpy(static_cast<void*>(record->context_span_id), start.context.data() + kTraceIdBytes,
                sizeof(record->context_span_id));
  }
  record->links_payload = write_links_locked(start.links);
  if (record->links_payload != 0) {
    record->links_count = static_cast<std::uint32_t>(start.links.size() / kContextBytes);
  }
  steps_.commit_record(sizeof(StepRecord));
  open_step_ = record;
}

void ActiveRecording::end_step() noexcept {
  const std::lock_guard lock(mutex_);
  close_step(ticks(), 0);
}

void ActiveRecording::add_metadata(std::string_view json_object) noexcept {
  const std::lock_guard lock(mutex_);
  if (finished_) {
    return;
  }
  const std::size_t size_bytes = json_object.size() + 1;
  std::byte* room = metadata_.reserve(arena_, size_bytes);
  if (room == nullptr) {
    count_drops(metadata_.failure());
    return;
  }
  // A raw line break in JSON is only ever white space between tokens.
  auto* line = reinterpret_cast<char*>(room);
  std::transform(json_object.begin(), json_object.end(), line,
                 [](char c) noexcept { return c == '\n' || c == '\r' ? ' ' : c; });
  line[json_object.size()] = '\n';
  metadata_.commit_bytes(size_bytes);
}

DropCounts ActiveRecording::drops() const noexcept {
  DropCounts counts{};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    counts[i] = arena_.header().drops[i].load(std::memory_order_relaxed);
  }
  return counts;
}

void ActiveRecording::start_counters(std::unique_ptr<CounterSource> source,
                                     std::span<const std::string> names) {
  if (counter_log_ != nullptr) {
    throw std::runtime_error("the counters of a capture start once");
  }
  counter_log_ = std::make_unique<CounterLog>(*this, std::move(source), names);
  counters_.store(counter_log_.get(), std::memory_order_release);
  try {
    counter_log_->start();
  } catch (...) {
    counters_.store(nullptr, std::memory_order_relaxed);
    throw;
  }
}

void ActiveRecording::stop_counters() noexcept {
  if (CounterLog* log = counters(); log != nullptr) {
    log->stop();
  }
}

void ActiveRecording::close_counters() noexcept {
  counters_.store(nullptr, std::memory_order_relaxed);
  counter_log_.reset();
}

}  // namespace torchprof
