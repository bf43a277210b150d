#include "spans/ids.h"

#include <bit>
#include <cstring>

namespace torchprof {
namespace {

// One constant a purpose, so that equal inputs give unrelated ids (digits of pi).
constexpr std::uint64_t kStepTraceHigh = 0x243f6a8885a308d3;
constexpr std::uint64_t kStepTraceLow = 0x13198a2e03707344;
constexpr std::uint64_t kStepSpan = 0xa4093822299f31d0;
constexpr std::uint64_t kCaptureTraceHigh = 0x082efa98ec4e6c89;
constexpr std::uint64_t kCaptureTraceLow = 0x452821e638d01377;
constexpr std::uint64_t kCaptureSpan = 0xbe5466cf34e90c6c;
constexpr std::uint64_t kThread = 0xc0ac29b7c97c50dd;
constexpr std::uint64_t kLane = 0x3f84d5b5b5470917;

// The finalizer of SplitMix64: a bijection on 64 bits, so ids of one thread never collide.
constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

constexpr std::uint64_t absorb(std::uint64_t state, std::uint64_t word) noexcept {
  return mix(std::rotl(state, 23) ^ word);
}

std::uint64_t absorb(std::uint64_t state, std::string_view text) noexcept {
  state = absorb(state, text.size());
  while (!text.empty()) {
    std::uint8_t word[8] = {};
    const std::size_t bytes = text.size() < sizeof(word) ? text.size() : sizeof(word);
    std::memcpy(word, text.data(), bytes);
    state = absorb(state, read_big_endian(word));
    text.remove_prefix(bytes);
  }
  return state;
}

constexpr std::uint64_t never_zero(std::uint64_t id) noexcept { return id != 0 ? id : 1; }

std::uint64_t hash_step(std::uint64_t purpose, const StepIdentity& step) noexcept {
  std::uint64_t state = absorb(purpose, step.run_id);
  state = absorb(state, step.restart);
  state = absorb(state, step.rank);
  return never_zero(absorb(state, static_cast<std::uint64_t>(step.number)));
}

std::uint64_t hash_capture(std::uint64_t purpose, const CaptureIdentity& capture) noexcept {
  const std::uint64_t state = absorb(purpose, capture.process_instance);
  return absorb(state, static_cast<std::uint64_t>(capture.capture_start_ns));
}

}  // namespace

TraceId step_trace_id(const StepIdentity& step) noexcept {
  return {hash_step(kStepTraceHigh, step), hash_step(kStepTraceLow, step)};
}

SpanId step_span_id(const StepIdentity& step) noexcept { return hash_step(kStepSpan, step); }

SpanReference capture_span_reference(const CaptureIdentity& capture) noexcept {
  return {{never_zero(hash_capture(kCaptureTraceHigh, capture)), hash_capture(kCaptureTraceLow, capture)},
          never_zero(hash_capture(kCaptureSpan, capture))};
}

std::uint64_t thread_seed(const CaptureIdentity& capture, std::uint64_t thread_ordinal) noexcept {
  return absorb(hash_capture(kThread, capture), thread_ordinal);
}

SpanId event_span_id(std::uint64_t thread_seed, std::uint64_t index) noexcept {
  return never_zero(mix(thread_seed ^ index));
}

SpanId lane_span_id(SpanId step, std::uint64_t track, bool beside_step) noexcept {
  return never_zero(absorb(absorb(absorb(kLane, step), track), beside_step ? 1 : 0));
}

std::uint64_t read_big_endian(const std::uint8_t* bytes) noexcept {
  std::uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = (value << 8) | bytes[i];
  return value;
}

void write_big_endian(std::uint64_t value, std::uint8_t* bytes) noexcept {
  for (int i = 7; i >= 0; --i) {
    bytes[i] = static_cast<std::uint8_t>(value);
    value >>= 8;
  }
}

}  // namespace torchprof
