// Records NVIDIA devices through CUPTI's activity interface.
//
//   CUPTI's threads        request and complete --> BufferPool
//   the decoding thread                             BufferPool --> RecordDecoder --> DeviceLog
//   threads of ops         push, pop
//
// While it records it holds the one subscription that a process has: it is how others are told, and how we
// learn of them, as buffers go to whoever registered last. Everything that may wait for CUPTI at the end
// happens on the decoding thread, so that a stop is bounded.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/device_collector.h"
#include "sources/cupti/buffer_pool.h"
#include "sources/cupti/cupti_api.h"
#include "sources/cupti/record_decoder.h"

namespace torchprof::cupti {

class CuptiCollector final : public DeviceCollector {
 public:
  // The one of this process; never destroyed.
  static CuptiCollector& instance();

  void preload() noexcept override {}
  DeviceProbe probe(const std::vector<std::string>& libraries, bool ask_for_subscriber) override;
  void start(const DeviceOptions& options, DeviceLog& log) override;
  bool push(std::uint64_t id) noexcept override;
  void pop(std::size_t count) noexcept override;
  void set_recording(bool wanted) override;
  void flush() noexcept override;
  bool drain(std::int64_t timeout_ms) noexcept override;
  bool stop() noexcept override;
  [[nodiscard]] std::optional<DeviceClockPair> clock_sync() noexcept override;
  [[nodiscard]] DeviceCounts counts() const noexcept override;

  [[nodiscard]] std::size_t buffer_bytes() const noexcept { return pool_.allocated_bytes(); }

 private:
  enum class State : std::uint8_t { kIdle, kRecording, kStuck };

  CuptiCollector();

  static void request_buffer(std::uint8_t** buffer, std::size_t* size_bytes,
                             std::size_t* max_records) noexcept;
  static void complete_buffer(void* context, std::uint32_t stream, std::uint8_t* buffer,
                              std::size_t size_bytes, std::size_t valid_bytes) noexcept;

  void unsubscribe() noexcept;
  void require(int result, std::string_view tried) const;
  // Of a driver that does not start, or is too old for this libcupti; empty when neither is so.
  [[nodiscard]] static std::string driver_fault(const Libraries& libraries, DeviceProbe& probe);
  void begin_clock();
  // Of records that CUPTI lost since this was asked for last.
  [[nodiscard]] std::size_t take_dropped(void* context, std::uint32_t stream) const noexcept;
  void enable(const DeviceOptions& options);
  void disable() noexcept;
  void use_system_thread_ids() noexcept;
  void restore_thread_ids() noexcept;

  [[nodiscard]] bool has_ended() const noexcept;

  // The decoding thread.
  void run() noexcept;
  void decode(const FilledBuffer& buffer) noexcept;
  void end_run() noexcept;

  BufferPool pool_;
  std::atomic<const Libraries*> libraries_{nullptr};
  std::atomic<bool> forked_{false};
  std::atomic<DeviceLog*> log_{nullptr};  // while recording

  std::atomic<std::uint64_t> overwritten_records_{0};  // since a buffer was decoded

  std::mutex lifecycle_mutex_;  // of what starts and stops; no callback and no op takes it
  State state_ = State::kIdle;
  void* subscriber_ = nullptr;
  DeviceOptions options_;
  std::vector<std::uint32_t> enabled_;  // activity kinds
  bool driver_launches_enabled_ = false;
  bool is_enabled_ = false;
  std::optional<std::uint32_t> thread_id_type_;  // as it was
  double ticks_per_ns_ = 1.0;
  DeviceClockPair first_;
  DeviceClockPair latest_;  // that CUPTI told
  std::thread thread_;

  std::unique_ptr<RecordDecoder> decoder_;  // used by the decoding thread while it runs
  mutable std::mutex result_mutex_;         // of what follows
  std::condition_variable ended_signal_;
  DeviceCounts counts_;
  bool ended_ = false;
};

}  // namespace torchprof::cupti
