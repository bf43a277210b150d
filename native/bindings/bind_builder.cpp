#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bindings/python_values.h"
#include "core/append_events.h"
#include "core/builder.h"
#include "core/drop_reason.h"
#include "core/process_identity.h"
#include "sources/python/gil.h"

namespace nb = nanobind;

namespace torchprof::bindings {
namespace {

template <typename T>
using InputColumn = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <typename T>
T value_or(const std::optional<InputColumn<T>>& column, std::size_t row, T otherwise) {
  return column ? column->data()[row] : otherwise;
}

template <typename T>
void require_size(const std::optional<InputColumn<T>>& column, std::size_t rows) {
  if (column && column->size() != rows) throw std::invalid_argument("columns of different lengths");
}

std::uint32_t add_track(RecordingBuilder& self, const nb::bytes& name, std::uint8_t kind,
                        std::int64_t process_id, std::int64_t thread_id, std::uint64_t torch_thread_id,
                        std::int32_t device, std::int32_t context) {
  if (kind > static_cast<std::uint8_t>(TrackKind::kOther)) throw std::invalid_argument("unknown track kind");
  return self.add_track({.kind = static_cast<TrackKind>(kind),
                         .process_id = process_id,
                         .thread_id = thread_id,
                         .torch_thread_id = torch_thread_id,
                         .device = device,
                         .context = context,
                         .name = std::string(bytes_view(name))});
}

std::uint64_t add_event(RecordingBuilder& self, std::int64_t start_ns, std::int64_t end_ns,
                        std::uint32_t name, std::uint32_t track, std::uint8_t kind, std::uint8_t scope,
                        std::uint16_t flags, std::int64_t sequence, std::uint32_t forward_thread,
                        std::uint32_t end_track, std::int64_t correlation, std::uint32_t error,
                        const nb::bytes& inputs) {
  return self.add_event({.start_ns = start_ns,
                         .end_ns = end_ns,
                         .name = name,
                         .track = track,
                         .kind = static_cast<EventKind>(kind),
                         .scope = scope,
                         .flags = flags,
                         .sequence = sequence,
                         .forward_thread = forward_thread,
                         .end_track = end_track,
                         .correlation = correlation,
                         .error = error},
                        {static_cast<const std::uint8_t*>(inputs.data()), inputs.size()});
}

void add_events(RecordingBuilder& self, const InputColumn<std::int64_t>& start_ns,
                const InputColumn<std::int64_t>& end_ns, const InputColumn<std::uint32_t>& name,
                const InputColumn<std::uint32_t>& track, const std::optional<InputColumn<std::uint8_t>>& kind,
                const std::optional<InputColumn<std::uint8_t>>& scope,
                const std::optional<InputColumn<std::uint16_t>>& flags,
                const std::optional<InputColumn<std::int64_t>>& sequence,
                const std::optional<InputColumn<std::uint32_t>>& forward_thread,
                const std::optional<InputColumn<std::uint32_t>>& end_track,
                const std::optional<InputColumn<std::int64_t>>& correlation,
                const std::optional<InputColumn<std::uint64_t>>& payload,
                const std::optional<InputColumn<std::uint32_t>>& error) {
  const std::size_t rows = start_ns.size();
  require_size<std::int64_t>(end_ns, rows);
  require_size<std::uint32_t>(name, rows);
  require_size<std::uint32_t>(track, rows);
  require_size(kind, rows);
  require_size(scope, rows);
  require_size(flags, rows);
  require_size(sequence, rows);
  require_size(forward_thread, rows);
  require_size(end_track, rows);
  require_size(correlation, rows);
  require_size(payload, rows);
  require_size(error, rows);
  const WithoutGil release;
  for (std::size_t row = 0; row < rows; ++row) {
    self.add_event({.start_ns = start_ns.data()[row],
                    .end_ns = end_ns.data()[row],
                    .name = name.data()[row],
                    .track = track.data()[row],
                    .kind = static_cast<EventKind>(value_or<std::uint8_t>(kind, row, 0)),
                    .scope = value_or<std::uint8_t>(scope, row, 0),
                    .flags = value_or<std::uint16_t>(flags, row, 0),
                    .sequence = value_or<std::int64_t>(sequence, row, -1),
                    .forward_thread = value_or<std::uint32_t>(forward_thread, row, 0),
                    .end_track = value_or<std::uint32_t>(end_track, row, 0),
                    .correlation = value_or<std::int64_t>(correlation, row, -1),
                    .payload = value_or<std::uint64_t>(payload, row, 0),
                    .error = value_or<std::uint32_t>(error, row, 0)});
  }
}

void add_events_of(RecordingBuilder& self, const Recording& source, const InputColumn<std::uint8_t>& keep,
                   const InputColumn<std::uint32_t>& track_of) {
  const WithoutGil release;
  append_events(self, source, {keep.data(), keep.size()}, {track_of.data(), track_of.size()});
}

SpanContext span_context(const nb::bytes& trace_id, const nb::bytes& span_id) {
  SpanContext context;
  if (trace_id.size() != sizeof(context.trace_id) || span_id.size() != sizeof(context.span_id)) {
    throw std::invalid_argument("a trace id has 16 bytes and a span id 8");
  }
  std::memcpy(context.trace_id, trace_id.data(), sizeof(context.trace_id));
  std::memcpy(context.span_id, span_id.data(), sizeof(context.span_id));
  return context;
}

void add_step(RecordingBuilder& self, std::int64_t start_ns, std::int64_t end_ns, std::int64_t number,
              std::uint32_t track, std::uint8_t phase, std::uint8_t flags,
              const std::optional<std::pair<nb::bytes, nb::bytes>>& context, std::uint8_t context_trace_flags,
              const std::vector<std::pair<nb::bytes, nb::bytes>>& links) {
  if (phase > static_cast<std::uint8_t>(StepPhase::kInfer)) throw std::invalid_argument("unknown step phase");
  Step step;
  step.start_ns = start_ns;
  step.end_ns = end_ns;
  step.number = number;
  step.track = track;
  step.phase = static_cast<StepPhase>(phase);
  step.flags = flags;
  if (context) step.context = span_context(context->first, context->second);
  step.context_trace_flags = context_trace_flags;
  for (const auto& [trace_id, span_id] : links) step.links.push_back(span_context(trace_id, span_id));
  self.add_step(std::move(step));
}

void add_drops(RecordingBuilder& self, const std::string& reason, std::uint64_t count) {
  for (std::size_t index = 0; index < static_cast<std::size_t>(DropReason::kCount); ++index) {
    if (reason == drop_reason_name(index)) return self.add_drops(static_cast<DropReason>(index), count);
  }
  throw std::invalid_argument("unknown drop reason " + reason);
}

}  // namespace
}  // namespace torchprof::bindings

void bind_recording_builder(nb::module_& m) {
  using namespace torchprof;
  using namespace torchprof::bindings;
  nb::class_<RecordingBuilder>(m, "RecordingBuilder")
      .def(nb::init<>())
      .def(
          "add_string",
          [](RecordingBuilder& self, const nb::bytes& name, const nb::bytes& overload) {
            return self.add_string(bytes_view(name), bytes_view(overload));
          },
          nb::arg("name"), nb::arg("overload") = nb::bytes("", 0))
      .def("add_track", add_track, nb::arg("name"), nb::arg("kind"), nb::arg("process_id"),
           nb::arg("thread_id"), nb::arg("torch_thread_id"), nb::arg("device"), nb::arg("context"))
      .def("add_event", add_event, nb::arg("start_ns"), nb::arg("end_ns"), nb::arg("name"), nb::arg("track"),
           nb::arg("kind"), nb::arg("scope"), nb::arg("flags"), nb::arg("sequence"),
           nb::arg("forward_thread"), nb::arg("end_track"), nb::arg("correlation"), nb::arg("error"),
           nb::arg("inputs"))
      .def("add_events", add_events, nb::arg("start_ns"), nb::arg("end_ns"), nb::arg("name"),
           nb::arg("track"), nb::arg("kind") = nb::none(), nb::arg("scope") = nb::none(),
           nb::arg("flags") = nb::none(), nb::arg("sequence") = nb::none(),
           nb::arg("forward_thread") = nb::none(), nb::arg("end_track") = nb::none(),
           nb::arg("correlation") = nb::none(), nb::arg("payload") = nb::none(),
           nb::arg("error") = nb::none())
      .def("add_events_of", add_events_of, nb::arg("source"), nb::arg("keep"), nb::arg("track_of"))
      .def("add_step", add_step, nb::arg("start_ns"), nb::arg("end_ns"), nb::arg("number"), nb::arg("track"),
           nb::arg("phase"), nb::arg("flags"), nb::arg("context").none(), nb::arg("context_trace_flags"),
           nb::arg("links"))
      .def(
          "add_link",
          [](RecordingBuilder& self, std::uint64_t from_event, std::uint64_t to_event, std::uint32_t type) {
            self.add_link(from_event, to_event, static_cast<LinkType>(type));
          },
          nb::arg("from_event"), nb::arg("to_event"), nb::arg("type"))
      .def(
          "add_metadata",
          [](RecordingBuilder& self, const nb::bytes& json) { self.add_metadata(bytes_view(json)); },
          nb::arg("json_object"))
      .def("add_drops", add_drops, nb::arg("reason"), nb::arg("count"))
      .def("set_process", &RecordingBuilder::set_process, nb::arg("process_id"), nb::arg("process_instance"))
      .def("set_this_process",
           [](RecordingBuilder& self) {
             self.set_process(static_cast<std::uint64_t>(getpid()), process_instance());
           })
      .def("set_stopped", &RecordingBuilder::set_stopped, nb::arg("stopped"))
      .def("cover", &RecordingBuilder::cover, nb::arg("start_ns"), nb::arg("end_ns"))
      .def("finish", &RecordingBuilder::finish, nb::call_guard<WithoutGil>());
}
