#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>

#include "bindings/decoded_inputs.h"
#include "bindings/python_values.h"
#include "core/averages.h"
#include "core/backwards.h"
#include "core/drop_reason.h"
#include "core/inputs_decoder.h"
#include "core/links.h"
#include "core/reader.h"
#include "core/recording.h"
#include "core/shape_ids.h"
#include "core/tree.h"
#include "core/writer.h"
#include "sources/python/gil.h"

namespace nb = nanobind;

void bind_recording_builder(nb::module_& m);

namespace torchprof::bindings {
namespace {

// Runs native work without the GIL.
template <typename Work>
auto without_gil(Work&& work) {
  const WithoutGil release;
  return std::forward<Work>(work)();
}

template <auto Member>
auto event_column() {
  return [](nb::handle self) { return view(nb::cast<const Recording&>(self).events.*Member, self); };
}

template <auto Member>
auto link_column() {
  return [](nb::handle self) { return view(nb::cast<const Recording&>(self).links.*Member, self); };
}

std::uint64_t checked_row(const Recording& recording, std::uint64_t row) {
  if (row >= recording.events.size()) throw nb::index_error("no event with this number");
  return row;
}

nb::list tracks(const Recording& recording) {
  nb::list list;
  for (const Track& track : recording.tracks) {
    list.append(nb::make_tuple(text(track.name), static_cast<std::uint8_t>(track.kind), track.process_id,
                               track.thread_id, track.torch_thread_id, track.device, track.context));
  }
  return list;
}

nb::tuple span_context(const SpanContext& context) {
  return nb::make_tuple(nb::bytes(context.trace_id, sizeof(context.trace_id)),
                        nb::bytes(context.span_id, sizeof(context.span_id)));
}

nb::list steps(const Recording& recording) {
  nb::list list;
  for (const Step& step : recording.steps) {
    nb::list links;
    for (const SpanContext& link : step.links) links.append(span_context(link));
    list.append(nb::make_tuple(step.start_ns, step.end_ns, step.number, step.track,
                               static_cast<std::uint8_t>(step.phase), step.flags, span_context(step.context),
                               step.context_trace_flags, links));
  }
  return list;
}

nb::list contexts(const Recording& recording) {
  nb::list list;
  for (const EventContext& context : recording.contexts) {
    nb::list links;
    for (const SpanContext& link : context.links) links.append(span_context(link));
    list.append(nb::make_tuple(context.event, span_context(context.context), context.trace_flags,
                               (context.flags & kContextIsRoot) != 0, links));
  }
  return list;
}

nb::list metadata_json(const Recording& recording) {
  nb::list list;
  for (const std::string& line : recording.metadata_json) list.append(nb::bytes(line.data(), line.size()));
  return list;
}

nb::dict drops(const Recording& recording) {
  nb::dict dict;
  for (std::size_t reason = 0; reason < std::size(recording.drops); ++reason) {
    const std::string_view name = drop_reason_name(reason);
    if (recording.drops[reason] != 0) dict[text(name.empty() ? "unknown" : name)] = recording.drops[reason];
  }
  return dict;
}

nb::dict problems(const Recording& recording) {
  nb::dict dict;
  for (const Problem& problem : recording.problems) dict[text(problem.name)] = problem.count;
  return dict;
}

nb::object inputs(const Recording& recording, std::uint64_t row) {
  const std::span<const std::uint8_t> encoded = encoded_inputs(recording, checked_row(recording, row));
  if (encoded.empty()) return nb::none();
  return decoded_inputs(encoded);
}

auto shape_ids(const Recording& recording) {
  ShapeIds ids = without_gil([&] { return input_shape_ids(recording); });
  return std::make_tuple(array(std::move(ids.by_row)), array(std::move(ids.example_row)), ids.damaged_inputs);
}

auto backwards(const Recording& recording) {
  return array(without_gil([&] { return backward_events(recording); }));
}

auto forward_backward(const Recording& recording) {
  LinkTable links = without_gil([&] { return forward_backward_links(recording); });
  return std::make_pair(array(std::move(links.from)), array(std::move(links.to)));
}

auto averages(const Recording& recording, const Tree& tree, bool by_overload, bool by_shapes,
              const std::optional<std::vector<std::pair<std::int64_t, std::int64_t>>>& ranges) {
  if (tree.parent.size() != recording.events.size()) throw std::invalid_argument("tree of another recording");
  AveragesOptions options{
      .by_overload = by_overload, .by_shapes = by_shapes, .only_ranges = ranges.has_value(), .ranges = {}};
  if (ranges) {
    for (const auto& [start_ns, end_ns] : *ranges) options.ranges.push_back({start_ns, end_ns});
  }
  Averages table = without_gil([&] { return build_averages(recording, tree, options); });
  return std::make_tuple(
      array(std::move(table.name)), array(std::move(table.kind)), array(std::move(table.first_row)),
      array(std::move(table.calls)), array(std::move(table.total_ns)), array(std::move(table.self_ns)),
      array(std::move(table.host_bytes)), array(std::move(table.self_host_bytes)),
      array(std::move(table.device_bytes)), array(std::move(table.self_device_bytes)), table.damaged_inputs);
}

// The rest of nanobind's own translation makes a RuntimeError of it, which says nothing about files.
// The texts name files, whose names need not be UTF-8.
void translate_error(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const std::system_error& error) {
    const nb::object arguments = nb::make_tuple(error.code().value(), text(error.what()));
    PyErr_SetObject(PyExc_OSError, arguments.ptr());
  } catch (const std::runtime_error& error) {
    PyErr_SetObject(PyExc_RuntimeError, text(error.what()).ptr());
  }
}

void save(const Recording& self, nb::handle path) {
  const std::string file = file_path(path);
  const WithoutGil without_gil;
  save_recording(self, file);
}

Recording open(nb::handle path) {
  const std::string file = file_path(path);
  const WithoutGil without_gil;
  return open_recording(file);
}

}  // namespace
}  // namespace torchprof::bindings

void bind_recording(nb::module_& m) {
  using namespace torchprof;
  using namespace torchprof::bindings;
  nb::register_exception_translator(translate_error);

  nb::class_<Tree>(m, "Tree")
      .def_prop_ro("parent", [](nb::handle self) { return view(nb::cast<const Tree&>(self).parent, self); })
      .def_prop_ro("self_ns",
                   [](nb::handle self) { return view(nb::cast<const Tree&>(self).self_ns, self); });

  nb::class_<Recording>(m, "Recording")
      .def("__len__", [](const Recording& self) { return self.events.size(); })
      .def_prop_ro("start_ns", event_column<&EventTable::start_ns>())
      .def_prop_ro("end_ns", event_column<&EventTable::end_ns>())
      .def_prop_ro("name", event_column<&EventTable::name>())
      .def_prop_ro("track", event_column<&EventTable::track>())
      .def_prop_ro("kind", event_column<&EventTable::kind>())
      .def_prop_ro("scope", event_column<&EventTable::scope>())
      .def_prop_ro("flags", event_column<&EventTable::flags>())
      .def_prop_ro("sequence", event_column<&EventTable::sequence>())
      .def_prop_ro("forward_thread", event_column<&EventTable::forward_thread>())
      .def_prop_ro("end_track", event_column<&EventTable::end_track>())
      .def_prop_ro("payload", event_column<&EventTable::payload>())
      .def_prop_ro("correlation", event_column<&EventTable::correlation>())
      .def_prop_ro("error", event_column<&EventTable::error>())
      .def_prop_ro("link_from", link_column<&LinkTable::from>())
      .def_prop_ro("link_to", link_column<&LinkTable::to>())
      .def_prop_ro("link_type", link_column<&LinkTable::type>())
      .def_prop_ro("tracks", tracks)
      .def_prop_ro("steps", steps)
      .def_prop_ro("contexts", contexts)
      .def_prop_ro("string_count", [](const Recording& self) { return self.strings.size(); })
      .def("string", [](const Recording& self, std::uint32_t id) { return text(self.strings.name(id)); })
      .def("overload",
           [](const Recording& self, std::uint32_t id) { return text(self.strings.overload(id)); })
      .def_prop_ro("metadata_json", metadata_json)
      .def_prop_ro("problems", problems)
      .def_prop_ro("drops", drops)
      .def_prop_ro("first_ns", [](const Recording& self) { return self.start_ns; })
      .def_prop_ro("last_ns", [](const Recording& self) { return self.end_ns; })
      .def_prop_ro("clock_source",
                   [](const Recording& self) { return static_cast<std::uint32_t>(self.clock_source); })
      .def_ro("process_id", &Recording::process_id)
      .def_ro("process_instance", &Recording::process_instance)
      .def_ro("stopped", &Recording::stopped)
      .def("inputs", inputs, nb::arg("row"))
      .def("input_shape_ids", shape_ids)
      .def("tree", build_tree, nb::call_guard<WithoutGil>())
      .def("backward_events", backwards)
      .def("forward_backward_links", forward_backward)
      .def("averages", averages, nb::arg("tree"), nb::arg("by_overload"), nb::arg("by_shapes"),
           nb::arg("ranges").none())
      .def("save", save, nb::arg("path"));

  m.def("open_recording", open, nb::arg("path"));
  bind_recording_builder(m);
}
