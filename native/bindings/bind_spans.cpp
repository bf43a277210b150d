#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/links.h"
#include "core/recording.h"
#include "core/tree.h"
#include "encode/otlp_encoder.h"
#include "sources/python/gil.h"
#include "spans/attributes.h"
#include "spans/event_kinds.h"
#include "spans/ids.h"
#include "spans/plan.h"
#include "spans/span_name.h"

namespace nb = nanobind;

namespace torchprof::bindings {
namespace {

nb::str python_text(std::string_view text) { return nb::str(text.data(), text.size()); }

nb::object python_trace_id(TraceId id) { return (nb::int_(id.high) << nb::int_(64)) | nb::int_(id.low); }

TraceId trace_id_from(const nb::bytes& bytes) {
  if (bytes.size() != 16) throw std::invalid_argument("a trace id has 16 bytes");
  const auto* data = static_cast<const std::uint8_t*>(bytes.data());
  return {read_big_endian(data), read_big_endian(data + 8)};
}

// Attributes as a dict of str to str, int, bool or tuples of them.
class DictSink {
 public:
  void text(std::string_view name, std::string_view value) { put(name, python_text(value)); }
  void integer(std::string_view name, std::int64_t value) { put(name, nb::int_(value)); }
  void flag(std::string_view name, bool value) { put(name, nb::bool_(value)); }
  void texts(std::string_view name, std::span<const std::string_view> values) {
    nb::list list;
    for (const std::string_view value : values) list.append(python_text(value));
    put(name, nb::tuple(list));
  }
  void integers(std::string_view name, std::span<const std::int64_t> values) {
    nb::list list;
    for (const std::int64_t value : values) list.append(value);
    put(name, nb::tuple(list));
  }

  nb::dict take() { return std::move(dict_); }

 private:
  void put(std::string_view name, const nb::object& value) { dict_[python_text(name)] = value; }

  nb::dict dict_;
};

// (trace id 16 bytes, span id, link type)
using LinkTuple = std::tuple<nb::bytes, SpanId, std::string>;
// (name, time, [(attribute, integer or text)])
using EventTuple =
    std::tuple<std::string, std::int64_t, std::vector<std::pair<std::string, SpanEvent::Value>>>;
// (trace id, span id, parent span id, trace flags, start, end, step, number, name, links, events, rows, is
// external)
using RootTuple = std::tuple<nb::bytes, SpanId, SpanId, std::uint8_t, std::int64_t, std::int64_t,
                             std::int64_t, std::int64_t, std::string, std::vector<LinkTuple>,
                             std::vector<EventTuple>, std::vector<std::uint64_t>, bool>;

SpanRoot root_from(const RootTuple& tuple) {
  const auto& [trace_id, span_id, parent, trace_flags, start_ns, end_ns, step, number, name, links, events,
               rows, is_external] = tuple;
  SpanRoot root;
  root.self = {trace_id_from(trace_id), span_id};
  root.parent = parent;
  root.trace_flags = trace_flags;
  root.start_ns = start_ns;
  root.end_ns = end_ns;
  root.step = step;
  root.number = number;
  root.name = name;
  root.rows = rows;
  root.is_external = is_external;
  for (const auto& [target_trace_id, target_span_id, type] : links) {
    const auto kind = link_kind_from_name(type);
    if (!kind) throw std::invalid_argument("unknown link type " + type);
    root.links.push_back({{trace_id_from(target_trace_id), target_span_id}, *kind});
  }
  for (const auto& [event_name, time_ns, attributes] : events) {
    root.events.push_back({event_name, time_ns, attributes});
  }
  return root;
}

SpanPlan make_plan(const Recording& recording, const std::vector<RootTuple>& root_tuples,
                   std::size_t max_spans_per_trace, std::size_t max_trace_bytes,
                   std::int64_t min_span_duration_ns, bool runtime_spans) {
  std::vector<SpanRoot> roots;
  roots.reserve(root_tuples.size());
  for (const RootTuple& tuple : root_tuples) roots.push_back(root_from(tuple));
  const WithoutGil release;
  PlanOptions options;
  options.max_spans_per_trace = max_spans_per_trace;
  options.max_trace_bytes = max_trace_bytes;
  options.min_span_duration_ns = min_span_duration_ns;
  options.runtime_spans = runtime_spans;
  return plan_spans(recording, build_tree(recording), forward_backward_links(recording), std::move(roots),
                    options);
}

// (name, trace id, span id, parent span id, start, end, attributes, [(trace id, span id, attributes)],
//  [(name, time, attributes)], error)
nb::tuple span_at(const SpanPlan& plan, std::size_t number) {
  if (number >= plan.sent.size()) throw nb::index_error("no span with this number");
  const std::uint32_t index = plan.sent[number];
  const PlannedSpan& span = plan.spans[index];
  DictSink attributes;
  visit_attributes(plan, index, attributes);
  nb::list links;
  for (std::uint32_t i = 0; i < span.links_count; ++i) {
    const SpanLink& link = plan.links[span.links_begin + i];
    DictSink link_attributes;
    visit_link_attributes(link, link_attributes);
    links.append(
        nb::make_tuple(python_trace_id(link.target.trace), link.target.span, link_attributes.take()));
  }
  nb::list events;
  for (const SpanEvent& event : plan.events(span)) {
    DictSink event_attributes;
    visit_event_attributes(event, event_attributes);
    events.append(nb::make_tuple(python_text(event.name), event.time_ns, event_attributes.take()));
  }
  return nb::make_tuple(python_text(plan.names[span.name].text),
                        python_trace_id(plan.roots[span.root].self.trace), span.id, plan.parent_id(span),
                        span.start_ns, span.end_ns, attributes.take(), links, events,
                        python_text(plan.error(span)));
}

OtlpRequestStream encode(const SpanPlan& plan, const nb::bytes& resource, const std::string& scope_name,
                         const std::string& scope_version, const std::string& schema_url,
                         std::size_t max_request_bytes, std::size_t max_request_spans) {
  OtlpOptions options;
  options.resource = {resource.c_str(), resource.size()};
  options.scope_name = scope_name;
  options.scope_version = scope_version;
  options.schema_url = schema_url;
  options.max_request_bytes = max_request_bytes;
  options.max_request_spans = max_request_spans;
  return {plan, options};
}

// (payload, spans, stripped spans)
nb::tuple next_request(OtlpRequestStream& stream) {
  std::optional<OtlpRequest> request;
  {
    const WithoutGil release;
    request = stream.next();
  }
  if (!request) throw nb::stop_iteration();
  return nb::make_tuple(nb::bytes(request->payload.data(), request->payload.size()), request->spans,
                        request->stripped_spans);
}

nb::list stats(const SpanPlan& plan) {
  nb::list list;
  for (std::size_t i = 0; i < plan.roots.size(); ++i) {
    const TraceStats& trace = plan.stats[i];
    list.append(nb::make_tuple(python_trace_id(plan.roots[i].self.trace), plan.roots[i].self.span,
                               trace.spans, trace.folded, trace.size_bytes, trace.device_ns));
  }
  return list;
}

nb::list attribute_names() {
  nb::list names;
  for (const std::string_view name : attributes::kAll) names.append(python_text(name));
  return names;
}

}  // namespace
}  // namespace torchprof::bindings

void bind_spans(nb::module_& m) {
  using namespace torchprof;
  using namespace torchprof::bindings;

  nb::class_<SpanPlan>(m, "SpanPlan")
      .def("__len__", [](const SpanPlan& self) { return self.sent.size(); })
      .def("span", span_at, nb::arg("index"))
      .def("encode", encode, nb::arg("resource"), nb::arg("scope_name"), nb::arg("scope_version"),
           nb::arg("schema_url"), nb::arg("max_request_bytes"), nb::arg("max_request_spans"),
           nb::keep_alive<0, 1>())
      .def("stats", stats);

  nb::class_<OtlpRequestStream>(m, "OtlpRequestStream")
      .def("__iter__", [](nb::handle self) { return self; })
      .def("__next__", next_request);

  m.def("plan_spans", make_plan, nb::arg("recording"), nb::arg("roots"), nb::arg("max_spans_per_trace"),
        nb::arg("max_trace_bytes"), nb::arg("min_span_duration_ns"), nb::arg("runtime_spans"),
        nb::keep_alive<0, 1>());

  m.def(
      "step_ids",
      [](const std::string& run_id, std::uint64_t restart, std::uint64_t rank, std::int64_t number) {
        const StepIdentity step{run_id, restart, rank, number};
        return nb::make_tuple(python_trace_id(step_trace_id(step)), step_span_id(step));
      },
      nb::arg("run_id"), nb::arg("restart"), nb::arg("rank"), nb::arg("number"));
  m.def(
      "capture_ids",
      [](const Recording& recording) {
        const SpanReference capture = capture_span_reference(capture_identity(recording));
        return nb::make_tuple(python_trace_id(capture.trace), capture.span);
      },
      nb::arg("recording"));
  m.def("span_attribute_names", attribute_names);
  m.def("span_name", [](const nb::bytes& recorded, std::uint8_t kind) {
    const std::string_view text(recorded.c_str(), recorded.size());
    const auto event_kind = static_cast<EventKind>(kind);
    return python_text(
        (is_device_work(event_kind) ? device_span_name(text, event_kind) : host_span_name(text)).text);
  });
}
