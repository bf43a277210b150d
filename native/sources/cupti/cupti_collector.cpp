#include "sources/cupti/cupti_collector.h"

#include <pthread.h>
#include <time.h>

#include <chrono>
#include <limits>
#include <new>
#include <string_view>
#include <system_error>

#include "core/blocked_signals.h"
#include "core/clock.h"
#include "sources/cupti/call_filter.h"
#include "sources/cupti/cupti_refusal.h"
#include "sources/cupti/device_properties.h"
#include "sources/cupti/record_layout.h"

namespace torchprof::cupti {
namespace {

constexpr std::chrono::milliseconds kStopTimeout{2000};
constexpr std::uint32_t kSystemThreadIds = 1;  // CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM
// With the default, a buffer that holds one piece of work without its end stays with CUPTI as a whole.
constexpr std::uint32_t kFlushForced = 1;  // CUPTI_ACTIVITY_FLAG_FLUSH_FORCED

// Nothing is asked for: it is there to hold the subscription.
void hear_nothing(void*, std::uint32_t, std::uint32_t, const void*) {}

void add_kinds(DeviceKind kind, bool graph_level, std::vector<ActivityKind>& kinds) {
  switch (kind) {
    case DeviceKind::kKernel:
      kinds.push_back(ActivityKind::kConcurrentKernel);
      if (graph_level) kinds.push_back(ActivityKind::kGraphTrace);
      return;
    case DeviceKind::kMemcpy:
      kinds.push_back(ActivityKind::kMemcpy);
      kinds.push_back(ActivityKind::kMemcpy2);
      return;
    case DeviceKind::kMemset:
      return kinds.push_back(ActivityKind::kMemset);
    case DeviceKind::kRuntime:
      return kinds.push_back(ActivityKind::kRuntime);
    case DeviceKind::kDriver:
      return;  // its launches only, one by one
    case DeviceKind::kSync:
      return kinds.push_back(ActivityKind::kSynchronization);
    case DeviceKind::kOverhead:
      return kinds.push_back(ActivityKind::kOverhead);
  }
}

// Of CUDA 12 the numbers say little, such as 26 of 12.8; since 13.0 they are as 130000.
int cuda_major(std::uint32_t cupti_version) noexcept {
  constexpr std::uint32_t kFirstSpeaking = 130'000;
  return cupti_version >= kFirstSpeaking ? static_cast<int>(cupti_version / 10'000) : 12;
}

std::int64_t thread_time_ns() noexcept {
  constexpr std::int64_t kNsPerSecond = 1'000'000'000;
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (static_cast<std::int64_t>(now.tv_sec) * kNsPerSecond) + now.tv_nsec;
}

}  // namespace

CuptiCollector& CuptiCollector::instance() {
  static auto* const collector = new CuptiCollector;
  return *collector;
}

CuptiCollector::CuptiCollector() {
  const int error = ::pthread_atfork(nullptr, nullptr, [] { instance().forked_.store(true); });
  if (error != 0) {
    throw std::system_error(error, std::generic_category(), "cannot watch forks");
  }
}

DeviceProbe CuptiCollector::probe(const std::vector<std::string>& libraries, bool ask_for_subscriber) {
  DeviceProbe probe;
  if (forked_.load()) {
    probe.reason = "this process was forked, and CUDA does not work in it; use the spawn start method";
    return probe;
  }
  const Libraries* const found = load_libraries(libraries, probe.reason);
  if (found == nullptr) {
    return probe;
  }
  libraries_.store(found, std::memory_order_release);
  probe.library = found->cupti_path;
  if (const int result = found->cupti.get_version(&probe.interface_version); result != kSuccess) {
    probe.reason = refusal(found->cupti, "to tell its version", result);
  } else if (probe.interface_version < kCuda12_0) {
    probe.reason = probe.library + " is older than CUDA 12.0; install a newer nvidia-cuda-cupti";
  }
  if (std::string fault = driver_fault(*found, probe); probe.reason.empty()) {
    probe.reason = std::move(fault);
  }
  if (ask_for_subscriber && probe.reason.empty()) {
    const std::lock_guard lock(lifecycle_mutex_);
    if (state_ == State::kIdle) {
      void* subscriber = nullptr;
      const int result = found->cupti.subscribe(&subscriber, hear_nothing, nullptr);
      if (result == kSuccess) {
        static_cast<void>(found->cupti.unsubscribe(subscriber));
      } else if (result == kMultipleSubscribers) {
        probe.subscriber = subscription_holder();
      }
    }
  }
  return probe;
}

std::string CuptiCollector::driver_fault(const Libraries& libraries, DeviceProbe& probe) {
  const CudaApi& cuda = libraries.cuda;
  static_cast<void>(cuda.get_driver_version(&probe.driver_version));
  // Before it nothing else of the driver answers.
  if (const int result = cuda.init(0); result != 0) {
    probe.devices = result == kNoDevice ? 0 : -1;
    const char* name = nullptr;
    if (cuda.get_error_name(result, &name) != 0 || name == nullptr) {
      name = "an error it does not name";
    }
    return std::string("the CUDA driver does not start: ") + name + " (" + std::to_string(result) +
           "); see whether nvidia-smi lists the device, and whether CUDA_VISIBLE_DEVICES hides it";
  }
  if (cuda.get_device_count(&probe.devices) != 0) {
    probe.devices = -1;
  }
  probe.properties = device_properties(cuda, probe.devices);
  const int made_for = cuda_major(probe.interface_version);
  const int knows = probe.driver_version / 1000;
  if (probe.driver_version != 0 && knows < made_for) {
    return "the driver is for CUDA " + std::to_string(knows) + ", older than " + probe.library +
           ", which is for CUDA " + std::to_string(made_for) +
           "; update the driver, or install torch for CUDA " + std::to_string(knows);
  }
  return {};
}

void CuptiCollector::begin_clock() {
  ticks_per_ns_ = 1.0 / ns_per_tick();
  const std::optional<DeviceClockPair> now = clock_sync();
  if (!now) {
    std::uint64_t timestamp_ns = 0;
    throw DeviceRefused(refusal(libraries_.load()->cupti, "to tell the time",
                                libraries_.load()->cupti.get_timestamp(&timestamp_ns)));
  }
  first_ = latest_ = *now;
}

std::size_t CuptiCollector::take_dropped(void* context, std::uint32_t stream) const noexcept {
  std::size_t dropped = 0;
  const int result = libraries_.load()->cupti.get_dropped_records(context, stream, &dropped);
  return result == kSuccess ? dropped : 0;
}

void CuptiCollector::require(int result, std::string_view tried) const {
  if (result != kSuccess) {
    throw DeviceRefused(refusal(libraries_.load()->cupti, tried, result));
  }
}

void CuptiCollector::start(const DeviceOptions& options, DeviceLog& log) {
  const DeviceProbe found = probe(options.libraries, false);
  if (!found.reason.empty()) {
    throw DeviceRefused(found.reason);
  }
  const std::lock_guard lock(lifecycle_mutex_);
  if (state_ == State::kStuck && has_ended()) {
    state_ = State::kIdle;
  }
  if (state_ == State::kStuck) {
    throw DeviceRefused("CUPTI did not return from an earlier capture; see what blocks the device");
  }
  if (state_ == State::kRecording) {
    throw DeviceRefused("another capture records the device; stop it first");
  }
  const CuptiApi& api = libraries_.load()->cupti;
  require(api.subscribe(&subscriber_, hear_nothing, nullptr), "a subscription");
  try {
    begin_clock();
    static_cast<void>(take_dropped(nullptr, 0));  // by whoever recorded before
    decoder_ = std::make_unique<RecordDecoder>(*libraries_.load(), log, first_);
    overwritten_records_.store(0);
    pool_.open(options.max_buffer_bytes, found.interface_version >= kMayRefuseBuffers);
    log_.store(&log, std::memory_order_release);
    {
      const std::lock_guard results(result_mutex_);
      counts_ = {};
      ended_ = false;
    }
    require(api.register_callbacks(request_buffer, complete_buffer), "its callbacks");
    use_system_thread_ids();
    options_ = options;
    enable(options_);
    const BlockedSignals blocked;
    thread_ = std::thread([this]() noexcept { run(); });
    // Here, so that whoever looks at the program's threads knows it from the first.
    ::pthread_setname_np(thread_.native_handle(), "torchprof-cupti");
  } catch (...) {
    disable();
    restore_thread_ids();
    log_.store(nullptr);
    pool_.close();
    unsubscribe();
    throw;
  }
  state_ = State::kRecording;
}

void CuptiCollector::enable(const DeviceOptions& options) {
  const CuptiApi& api = libraries_.load()->cupti;
  is_enabled_ = true;
  std::vector<ActivityKind> kinds;
  bool driver_launches = false;
  for (const DeviceKind kind : options.kinds) {
    add_kinds(kind, options.graph_level, kinds);
    driver_launches = driver_launches || kind == DeviceKind::kDriver;
  }
  if (options.correlate_ops) kinds.push_back(ActivityKind::kExternalCorrelation);
  if (driver_launches && api.enable_driver_call == nullptr) kinds.push_back(ActivityKind::kDriver);
  for (const ActivityKind kind : kinds) {
    const auto number = static_cast<std::uint32_t>(kind);
    require(api.enable(number), "activity kind " + std::to_string(number));
    enabled_.push_back(number);
    // The rest is left out when it is decoded: what fails here costs time, not truth.
    if (kind == ActivityKind::kRuntime && api.enable_runtime_call != nullptr) {
      for (const std::uint32_t call : kNoisyRuntimeCalls) static_cast<void>(api.enable_runtime_call(call, 0));
    }
  }
  if (driver_launches && api.enable_driver_call != nullptr) {
    driver_launches_enabled_ = true;
    // A number that an older libcupti does not know is of a call that cannot happen.
    for (const std::uint32_t call : kDriverLaunches) static_cast<void>(api.enable_driver_call(call, 1));
  }
}

void CuptiCollector::disable() noexcept {
  const CuptiApi& api = libraries_.load()->cupti;
  if (driver_launches_enabled_) {
    for (const std::uint32_t call : kDriverLaunches) static_cast<void>(api.enable_driver_call(call, 0));
  }
  driver_launches_enabled_ = is_enabled_ = false;
  for (const std::uint32_t kind : enabled_) static_cast<void>(api.disable(kind));
  enabled_.clear();
}

void CuptiCollector::set_recording(bool wanted) {
  const std::lock_guard lock(lifecycle_mutex_);
  if (forked_.load() || state_ != State::kRecording || wanted == is_enabled_) {
    return;
  }
  if (!wanted) {
    disable();
    return;
  }
  try {
    enable(options_);
  } catch (...) {
    disable();
    throw;
  }
}

// The default is a part of pthread_self(), which nobody knows of threads that record nothing. It is the whole
// process's choice, and so is put back.
void CuptiCollector::use_system_thread_ids() noexcept {
  const CuptiApi& api = libraries_.load()->cupti;
  std::uint32_t before = 0;
  if (api.get_thread_id_type == nullptr || api.set_thread_id_type == nullptr ||
      api.get_thread_id_type(&before) != kSuccess || before == kSystemThreadIds) {
    return;
  }
  if (api.set_thread_id_type(kSystemThreadIds) == kSuccess) thread_id_type_ = before;
}

void CuptiCollector::restore_thread_ids() noexcept {
  if (thread_id_type_) static_cast<void>(libraries_.load()->cupti.set_thread_id_type(*thread_id_type_));
  thread_id_type_.reset();
}

void CuptiCollector::unsubscribe() noexcept {
  static_cast<void>(libraries_.load()->cupti.unsubscribe(subscriber_));
  subscriber_ = nullptr;
}

bool CuptiCollector::push(std::uint64_t id) noexcept {
  return libraries_.load(std::memory_order_acquire)->cupti.push_external_id(kExternalKindOfOps, id) ==
         kSuccess;
}

void CuptiCollector::pop(std::size_t count) noexcept {
  const CuptiApi& api = libraries_.load(std::memory_order_acquire)->cupti;
  std::uint64_t last = 0;
  for (; count != 0; --count) static_cast<void>(api.pop_external_id(kExternalKindOfOps, &last));
}

void CuptiCollector::flush() noexcept {
  if (!forked_.load() && log_.load(std::memory_order_acquire) != nullptr) {
    static_cast<void>(libraries_.load()->cupti.flush_all(0));
  }
}

bool CuptiCollector::drain(std::int64_t timeout_ms) noexcept {
  return forked_.load() || pool_.wait_until_read(std::chrono::milliseconds(timeout_ms));
}

bool CuptiCollector::has_ended() const noexcept {
  const std::lock_guard results(result_mutex_);
  return ended_;
}

bool CuptiCollector::stop() noexcept {
  if (forked_.load()) {
    return true;
  }
  const std::lock_guard lock(lifecycle_mutex_);
  if (state_ != State::kRecording) {
    return state_ == State::kIdle;
  }
  pool_.interrupt();
  {
    std::unique_lock results(result_mutex_);
    if (!ended_signal_.wait_for(results, kStopTimeout, [this]() noexcept { return ended_; })) {
      thread_.detach();
      state_ = State::kStuck;
      return false;
    }
  }
  thread_.join();
  decoder_.reset();
  state_ = State::kIdle;
  return true;
}

std::optional<DeviceClockPair> CuptiCollector::clock_sync() noexcept {
  const CuptiApi& api = libraries_.load()->cupti;
  // The tightest of a few tries is the one that nothing came between.
  constexpr int kTries = 8;
  std::optional<DeviceClockPair> best;
  std::uint64_t best_width = std::numeric_limits<std::uint64_t>::max();
  for (int i = 0; i < kTries; ++i) {
    std::uint64_t timestamp_ns = 0;
    const std::uint64_t before = ticks();
    const int result = api.get_timestamp(&timestamp_ns);
    const std::uint64_t width = ticks() - before;
    if (result == kSuccess && width < best_width) {
      best_width = width;
      best = DeviceClockPair{.device_ns = static_cast<std::int64_t>(timestamp_ns),
                             .ticks = before + (width / 2)};
    }
  }
  return best;
}

DeviceCounts CuptiCollector::counts() const noexcept {
  const std::lock_guard results(result_mutex_);
  return counts_;
}

// NOLINTNEXTLINE(bugprone-exception-escape): what is called through the table is C
void CuptiCollector::request_buffer(std::uint8_t** buffer, std::size_t* size_bytes,
                                    std::size_t* max_records) noexcept {
  CuptiCollector& self = instance();
  *max_records = 0;  // as many as fit
  const BufferPool::Taken taken = self.pool_.take();
  *buffer = taken.data;
  *size_bytes = taken.data != nullptr ? kBufferBytes : 0;
  if (!taken.unread) {
    return;
  }
  std::byte* record = nullptr;
  const CuptiApi& api = self.libraries_.load(std::memory_order_acquire)->cupti;
  while (api.get_next_record(taken.data, taken.unread->valid_bytes, &record) == kSuccess) {
    self.overwritten_records_.fetch_add(1, std::memory_order_relaxed);
  }
}

void CuptiCollector::complete_buffer(void* context, std::uint32_t stream, std::uint8_t* buffer, std::size_t,
                                     std::size_t valid_bytes) noexcept {
  if (buffer != nullptr) {
    instance().pool_.put({.data = buffer, .valid_bytes = valid_bytes, .context = context, .stream = stream});
  }
}

void CuptiCollector::run() noexcept {
  while (const std::optional<FilledBuffer> buffer = pool_.next()) decode(*buffer);
  end_run();
}

void CuptiCollector::decode(const FilledBuffer& buffer) noexcept {
  DeviceLog& log = *log_.load(std::memory_order_relaxed);
  const std::int64_t start_ns = thread_time_ns();
  try {
    latest_ = clock_sync().value_or(latest_);
    decoder_->decode(buffer.data, buffer.valid_bytes, DeviceClockLine(first_, latest_, ticks_per_ns_));
  } catch (const std::bad_alloc&) {
    log.count_drops(DropReason::kDeviceDropped, 1);  // and what followed in the buffer
  }
  const std::size_t dropped = take_dropped(buffer.context, buffer.stream);
  log.count_drops(DropReason::kDeviceDropped, dropped + overwritten_records_.exchange(0));
  {
    const std::lock_guard results(result_mutex_);
    const std::int64_t decode_ns = counts_.decode_ns + thread_time_ns() - start_ns;
    counts_ = decoder_->counts();
    counts_.decode_ns = decode_ns;
  }
  pool_.read(buffer);
}

void CuptiCollector::end_run() noexcept {
  disable();
  // Work without its end is in it: that has no time, and is counted.
  const bool is_flushed = libraries_.load()->cupti.flush_all(kFlushForced) == kSuccess;
  while (const std::optional<FilledBuffer> buffer = pool_.next()) decode(*buffer);
  const std::size_t dropped = take_dropped(nullptr, 0) + (is_flushed ? 0 : 1);  // who knows how many
  log_.load(std::memory_order_relaxed)->count_drops(DropReason::kDeviceDropped, dropped);
  log_.store(nullptr);
  pool_.close();
  restore_thread_ids();
  unsubscribe();
  const std::lock_guard results(result_mutex_);
  ended_ = true;
  ended_signal_.notify_all();
}

}  // namespace torchprof::cupti
