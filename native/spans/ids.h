// Trace and span ids as pure functions of what identifies the span, so that a step can be named before,
// while and after it is recorded, and a replayed recording gets the ids it was first sent with.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/recording.h"

namespace torchprof {

struct TraceId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend bool operator==(const TraceId&, const TraceId&) = default;
  [[nodiscard]] bool valid() const noexcept { return (high | low) != 0; }
};

using SpanId = std::uint64_t;  // 0 = none

struct SpanReference {
  TraceId trace;
  SpanId span = 0;
  friend bool operator==(const SpanReference&, const SpanReference&) = default;
};

// What a step is known by across processes and restarts.
struct StepIdentity {
  std::string_view run_id;
  std::uint64_t restart = 0;
  std::uint64_t rank = 0;
  std::int64_t number = 0;
};

// None of these is ever zero.
[[nodiscard]] TraceId step_trace_id(const StepIdentity& step) noexcept;
[[nodiscard]] SpanId step_span_id(const StepIdentity& step) noexcept;

// `capture_start_ns` separates the captures of one process; the clock pair a recording opens with.
struct CaptureIdentity {
  std::uint64_t process_instance = 0;
  std::int64_t capture_start_ns = 0;
};
[[nodiscard]] SpanReference capture_span_reference(const CaptureIdentity& capture) noexcept;

// Span ids of one thread's events: the seed once a thread, then an index that is distinct within it.
[[nodiscard]] std::uint64_t thread_seed(const CaptureIdentity& capture,
                                        std::uint64_t thread_ordinal) noexcept;
[[nodiscard]] SpanId event_span_id(std::uint64_t thread_seed, std::uint64_t index) noexcept;
// A device lane of a step.
[[nodiscard]] SpanId lane_span_id(SpanId step, std::uint64_t track, bool beside_step) noexcept;

// Big-endian bytes, as W3C trace context and OTLP have them.
[[nodiscard]] std::uint64_t read_big_endian(const std::uint8_t* bytes) noexcept;
void write_big_endian(std::uint64_t value, std::uint8_t* bytes) noexcept;

}  // namespace torchprof
