// What a capture records into: the arena and everything in it that threads share.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/arena.h"
#include "core/chunk_cursor.h"
#include "core/counter_source.h"
#include "core/string_table.h"

namespace torchprof {

using DropCounts = std::array<std::uint64_t, static_cast<std::size_t>(DropReason::kCount)>;

// A step that begins, with the OpenTelemetry context current at that moment.
struct StepStart {
  std::int64_t number = -1;  // -1 = none
  StepPhase phase = StepPhase::kUnknown;
  std::uint8_t flags = 0;         // StepFlags
  std::string_view context = {};  // trace id and span id, 24 bytes, or empty
  std::uint8_t trace_flags = 0;
  std::string_view links = {};  // n x 24 bytes
};
inline constexpr std::size_t kContextBytes = 24;

// The context of an event that has just begun.
struct ContextStart {
  std::string_view context;  // trace id and span id, 24 bytes
  std::uint8_t trace_flags = 0;
  std::uint8_t flags = 0;       // ContextFlags
  std::string_view links = {};  // n x 24 bytes
};

class CounterLog;

// Over which events counters are read, beside steps and threads.
enum class CounterScope : std::uint8_t { kNone, kUserSpans, kOps };

class ActiveRecording {
 public:
  // Throws std::system_error.
  ActiveRecording(const std::string& path, std::uint64_t cap_bytes);
  ~ActiveRecording();

  // Unlike its address never used twice in a process.
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] Arena& arena() noexcept { return arena_; }
  [[nodiscard]] StringTable& strings() noexcept { return strings_; }

  void begin_clock() noexcept;
  // The last calibration and the final state; nothing is recorded after it.
  void finish() noexcept;

  [[nodiscard]] std::uint32_t next_thread_ordinal() noexcept {
    return last_ordinal_.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  // nullptr when there is no room, with the reason in `failure`.
  ThreadRecord* add_thread(std::uint32_t ordinal, std::uint32_t os_thread_id, const char* name,
                           DropReason& failure) noexcept;
  // The ordinal of a thread of this process that may record nothing itself, its track made if need be; 0 when
  // there is no room for it.
  std::uint32_t ordinal_of_thread(std::uint32_t os_thread_id, const char* name) noexcept;
  // For a thread that begins to record: the ordinal that it was given so, or its own, new one. `record` is
  // its track, if that exists.
  std::uint32_t claim_ordinal(std::uint32_t os_thread_id, const char* name, ThreadRecord*& record) noexcept;
  // A better name than the system's for the threads with this id.
  void name_thread(std::uint32_t os_thread_id, std::string_view name) noexcept;

  // Both do nothing after `finish`.
  void begin_step(const StepStart& start, std::uint32_t thread) noexcept;
  void end_step() noexcept;
  // The id of a name, for records that are made elsewhere.
  [[nodiscard]] std::uint32_t intern(std::string_view name, std::string_view overload) noexcept;
  // Notes of one moment, which is now; their times are ignored.
  void add_tensor_roles(std::span<const TensorRoleRecord> records) noexcept;
  // The context of the innermost event of `thread`, which has just begun.
  void add_context(const ContextStart& context, std::uint32_t thread) noexcept;
  // One JSON object; becomes one line.
  void add_metadata(std::string_view json_object) noexcept;

  void count_drops(DropReason reason, std::uint64_t count = 1) noexcept {
    arena_.header().drops[static_cast<std::size_t>(reason)].fetch_add(count, std::memory_order_relaxed);
  }
  [[nodiscard]] DropCounts drops() const noexcept;

  // Counts from now on, once in a recording. Throws std::system_error when it cannot, std::runtime_error the
  // second time.
  void start_counters(std::unique_ptr<CounterSource> source, std::span<const std::string> names);
  void stop_counters() noexcept;
  // Closes them, once no thread is inside a hook.
  void close_counters() noexcept;
  // nullptr when nothing counts.
  [[nodiscard]] CounterLog* counters() const noexcept { return counters_.load(std::memory_order_acquire); }

 private:
  void close_step(std::uint64_t end_ticks, std::uint8_t flags) noexcept;
  // Where the links went, in units of kPayloadAlignBytes; 0 = nowhere.
  std::uint32_t write_links_locked(std::string_view links) noexcept;

  ThreadRecord* add_thread_locked(std::uint32_t ordinal, std::uint32_t os_thread_id, const char* name,
                                  DropReason& failure) noexcept;

  const std::uint64_t id_;
  std::atomic<CounterLog*> counters_{nullptr};
  Arena arena_;
  StringTable strings_;
  std::atomic<std::uint32_t> last_ordinal_{0};

  std::mutex mutex_;  // of everything below: rare records, many threads
  ChunkCursor threads_;
  std::vector<ThreadRecord*> thread_records_;
  std::vector<ThreadRecord*> unclaimed_;  // of threads that have recorded nothing yet
  ChunkCursor steps_;
  ChunkCursor span_links_;
  ChunkCursor metadata_;
  ChunkCursor tensor_roles_;
  ChunkCursor contexts_;
  StepRecord* open_step_ = nullptr;
  bool finished_ = false;

  std::unique_ptr<CounterLog> counter_log_;
};

}  // namespace torchprof
