#include "spans/span_size.h"

#include "spans/attributes.h"

namespace torchprof {
namespace {

// Trace id 18, span id 10, parent 10, times 2 x 9, kind 2, flags 6, dropped counts 2 x 6, name 3; tag and
// length of the span in its request 5.
constexpr std::size_t kFixedBytes = 18 + 10 + 10 + 2 * 9 + 2 + 6 + 2 * 6 + 3 + 5;
// Tags and lengths of KeyValue, key, AnyValue and its value, outer lengths of up to three bytes.
constexpr std::size_t kAttributeBytes = 14;
constexpr std::size_t kVarintBytes = 10;
// Tag and length of an array item: AnyValue and its value.
constexpr std::size_t kItemBytes = 6;
// Tag and length of the status and of its message, its code.
constexpr std::size_t kStatusBytes = 2 + 2 + 2;
// Time 9, tag and length of the event and of its name 4 each.
constexpr std::size_t kEventBytes = 9 + 4 + 4;
// Trace id 18, span id 10, tag and length of the link 4.
constexpr std::size_t kLinkBytes = 18 + 10 + 4;

struct SizeSink {
  std::size_t size_bytes = 0;

  void text(std::string_view name, std::string_view value) { add(name, value.size()); }
  void integer(std::string_view name, std::int64_t /*value*/) { add(name, kVarintBytes); }
  void flag(std::string_view name, bool /*value*/) { add(name, 1); }
  void texts(std::string_view name, std::span<const std::string_view> values) {
    add(name, 4);
    for (const std::string_view value : values) size_bytes += value.size() + kItemBytes;
  }
  void integers(std::string_view name, std::span<const std::int64_t> values) {
    add(name, 4 + values.size() * (kVarintBytes + kItemBytes));
  }

 private:
  void add(std::string_view name, std::size_t value_bytes) {
    size_bytes += kAttributeBytes + name.size() + value_bytes;
  }
};

}  // namespace

std::size_t max_encoded_bytes(const SpanPlan& plan, std::size_t index) {
  const PlannedSpan& span = plan.spans[index];
  SizeSink sink;
  sink.size_bytes = kFixedBytes + plan.names[span.name].text.size();
  if (const std::string_view error = plan.error(span); !error.empty()) {
    sink.size_bytes += kStatusBytes + error.size();
  }
  visit_attributes(plan, index, sink);
  for (const SpanEvent& event : plan.events(span)) {
    sink.size_bytes += kEventBytes + event.name.size();
    visit_event_attributes(event, sink);
  }
  for (std::uint32_t i = 0; i < span.links_count; ++i) {
    sink.size_bytes += kLinkBytes;
    visit_link_attributes(plan.links[span.links_begin + i], sink);
  }
  return sink.size_bytes;
}

void measure_traces(SpanPlan& plan) {
  for (std::size_t i = 0; i < plan.spans.size(); ++i) {
    plan.stats[plan.spans[i].root].size_bytes += max_encoded_bytes(plan, i);
  }
}

}  // namespace torchprof
