// A Recording in memory: columns, one row an event, integers only. Every source and importer ends here,
// every exporter and analysis starts here.
//
// Order of rows: by track, and within a track by start; of two events that start together the enclosing
// one comes first. tree.h depends on that order; RecordingBuilder and the reader establish it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/layout.h"

namespace torchprof {

// Times of events and steps lie in [-kMaxTimeNs, kMaxTimeNs], so that differences cannot overflow. The
// builder refuses others, the reader clamps them and counts.
inline constexpr std::int64_t kMaxTimeNs = (std::int64_t{1} << 62) - 1;

// Longer names of tracks are cut.
inline constexpr std::size_t kMaxTrackNameBytes = 256;

// Strings by dense id; id 0 is the empty string. An entry may carry an overload name.
class StringPool {
 public:
  StringPool();
  std::uint32_t add(std::string_view name, std::string_view overload = {});
  [[nodiscard]] std::string_view name(std::uint32_t id) const noexcept;
  [[nodiscard]] std::string_view overload(std::uint32_t id) const noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

 private:
  struct Entry {
    std::uint64_t offset;
    std::uint32_t name_bytes;
    std::uint32_t overload_bytes;
  };
  std::vector<Entry> entries_;
  std::string bytes_;
};

struct EventTable {
  std::vector<std::int64_t> start_ns;
  std::vector<std::int64_t> end_ns;
  std::vector<std::uint32_t> name;   // StringPool id
  std::vector<std::uint32_t> track;  // index into tracks
  std::vector<std::uint8_t> kind;    // EventKind
  std::vector<std::uint8_t> scope;   // at::RecordScope
  std::vector<std::uint16_t> flags;  // OpFlags
  std::vector<std::int64_t> sequence;
  std::vector<std::uint32_t> forward_thread;  // torch thread id
  std::vector<std::uint32_t> end_track;       // meaningful with kFlagOtherThread
  std::vector<std::uint64_t> payload;         // offset into Recording::payload(), 0 = none
  std::vector<std::int64_t> correlation;      // empty when no event has one; else -1 = none
  // StringPool id of the type of the exception that ended it; empty when none ended any, else 0 = none.
  std::vector<std::uint32_t> error;

  [[nodiscard]] std::size_t size() const noexcept { return start_ns.size(); }
};

struct Track {
  TrackKind kind = TrackKind::kThread;
  std::int64_t process_id = 0;
  std::int64_t thread_id = 0;  // OS thread id, or stream
  std::uint64_t torch_thread_id = 0;
  std::int32_t device = -1;
  std::int32_t context = -1;
  std::string name;
};

struct SpanContext {
  std::uint8_t trace_id[16] = {};
  std::uint8_t span_id[8] = {};
};

struct Step {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t number = -1;
  std::uint32_t track = 0;
  StepPhase phase = StepPhase::kUnknown;
  std::uint8_t flags = 0;  // StepFlags
  std::uint8_t context_trace_flags = 0;
  SpanContext context;
  std::vector<SpanContext> links;
};

// The span of another trace that an event belongs under, with all that it encloses.
struct EventContext {
  std::uint64_t event = 0;  // row
  std::uint8_t trace_flags = 0;
  std::uint8_t flags = 0;  // ContextFlags
  SpanContext context;
  std::vector<SpanContext> links;
};

enum class LinkType : std::uint32_t { kForwardBackward = 1, kLaunch = 2, kOther = 3 };

struct LinkTable {
  std::vector<std::uint64_t> from;  // event index
  std::vector<std::uint64_t> to;
  std::vector<std::uint32_t> type;
};

// What a reader met and went on from: a name and how often.
struct Problem {
  std::string name;
  std::uint64_t count = 0;
};

struct Recording {
  EventTable events;
  std::vector<Track> tracks;
  std::vector<Step> steps;
  // What few events have stands beside them, as it is laid out in a file but with rows and StringPool ids for
  // numbers, tracks for threads and unix ns for times. Devices and arguments by event, the others by time.
  std::vector<DeviceRecord> devices;
  std::vector<CounterRecord> counters;
  std::vector<MemoryRecord> memory;
  std::vector<ArgumentsRecord> arguments;
  std::vector<TensorRoleRecord> tensor_roles;
  std::vector<EventContext> contexts;  // by event
  LinkTable links;  // explicit links only; forward-backward ones follow from sequence numbers
  StringPool strings;
  std::vector<std::string> metadata_json;  // JSON objects in order of writing; later keys win
  std::vector<Problem> problems;
  std::uint64_t drops[static_cast<std::size_t>(DropReason::kCount)] = {};

  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  ClockSource clock_source = ClockSource::kUnixNs;
  ClockPair clock_start = {};
  ClockPair clock_latest = {};
  std::uint64_t process_id = 0;
  std::uint64_t process_instance = 0;
  bool stopped = true;  // false: the file was left by a process that never stopped its capture

  // Bytes that EventTable::payload points into, kept alive by `payload_owner`.
  std::span<const std::uint8_t> payload;
  std::shared_ptr<const void> payload_owner;
};

}  // namespace torchprof
