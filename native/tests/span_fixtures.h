// Small recordings and plans for the tests of spans and their encoding.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/builder.h"
#include "core/links.h"
#include "core/tree.h"
#include "encode/otlp_encoder.h"
#include "spans/attributes.h"
#include "spans/plan.h"

namespace torchprof::testing {

// Adds events by name; track 0 is a thread, others as asked for.
class Scene {
 public:
  Scene() {
    Track thread;
    thread.thread_id = 100;
    thread.torch_thread_id = 1;
    thread.name = "main";
    builder.add_track(thread);
  }

  std::uint32_t thread(std::int64_t thread_id, std::uint64_t torch_thread_id) {
    Track track;
    track.thread_id = thread_id;
    track.torch_thread_id = torch_thread_id;
    return builder.add_track(track);
  }

  std::uint32_t stream(std::int32_t device, std::int64_t stream_id) {
    Track track;
    track.kind = TrackKind::kStream;
    track.device = device;
    track.thread_id = stream_id;
    return builder.add_track(track);
  }

  std::uint64_t event(std::string_view name, std::int64_t start_ns, std::int64_t end_ns,
                      BuilderEvent event = {}) {
    event.name = builder.add_string(name);
    event.start_ns = start_ns;
    event.end_ns = end_ns;
    return builder.add_event(event);
  }

  void step(std::int64_t start_ns, std::int64_t end_ns, std::int64_t number,
            std::uint8_t flags = kStepHasNumber) {
    Step step;
    step.start_ns = start_ns;
    step.end_ns = end_ns;
    step.number = number;
    step.flags = flags;
    builder.add_step(step);
  }

  RecordingBuilder builder;
};

// One root a step, in traces 1, 2, ..., each with a parent span 1000 + n.
inline std::vector<SpanRoot> roots_of(const Recording& recording) {
  std::vector<SpanRoot> roots;
  for (std::size_t i = 0; i < recording.steps.size(); ++i) {
    SpanRoot root;
    root.self = {{0, i + 1}, i + 1};
    root.parent = 1000 + i;
    root.start_ns = recording.steps[i].start_ns;
    root.end_ns = recording.steps[i].end_ns;
    root.step = static_cast<std::int64_t>(i);
    root.number = recording.steps[i].number;
    roots.push_back(root);
  }
  return roots;
}

inline SpanPlan plan_of(const Recording& recording, const PlanOptions& options, std::vector<SpanRoot> roots) {
  return plan_spans(recording, build_tree(recording), forward_backward_links(recording), std::move(roots),
                    options);
}

inline SpanPlan plan_of(const Recording& recording, const PlanOptions& options = {}) {
  return plan_of(recording, options, roots_of(recording));
}

using Value =
    std::variant<std::string, std::int64_t, bool, std::vector<std::string>, std::vector<std::int64_t>>;

struct MapSink {
  std::map<std::string, Value> values;

  void text(std::string_view name, std::string_view value) { put(name, std::string(value)); }
  void integer(std::string_view name, std::int64_t value) { put(name, value); }
  void flag(std::string_view name, bool value) { put(name, value); }
  void texts(std::string_view name, std::span<const std::string_view> items) {
    put(name, std::vector<std::string>(items.begin(), items.end()));
  }
  void integers(std::string_view name, std::span<const std::int64_t> items) {
    put(name, std::vector<std::int64_t>(items.begin(), items.end()));
  }

 private:
  void put(std::string_view name, Value value) { values.emplace(name, std::move(value)); }
};

inline std::map<std::string, Value> attributes_of(const SpanPlan& plan, std::size_t index) {
  MapSink sink;
  visit_attributes(plan, index, sink);
  return sink.values;
}

inline constexpr std::size_t kNotFound = SIZE_MAX;

// The n-th span with this name.
inline std::size_t find_span(const SpanPlan& plan, std::string_view name, std::size_t n = 0) {
  for (std::size_t i = 0; i < plan.spans.size(); ++i) {
    if (plan.names[plan.spans[i].name].text == name && n-- == 0) return i;
  }
  return kNotFound;
}

[[nodiscard]] inline std::vector<OtlpRequest> all_requests(const SpanPlan& plan, const OtlpOptions& options) {
  std::vector<OtlpRequest> requests;
  OtlpRequestStream stream(plan, options);
  while (std::optional<OtlpRequest> request = stream.next()) requests.push_back(std::move(*request));
  return requests;
}

}  // namespace torchprof::testing
