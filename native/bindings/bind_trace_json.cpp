#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "bindings/python_values.h"
#include "core/json_scanner.h"
#include "sources/python/gil.h"
#include "trace_json/event_arguments.h"
#include "trace_json/event_text.h"
#include "trace_json/trace_scanner.h"

namespace nb = nanobind;

namespace torchprof::bindings {
namespace {

nb::bytes bytes_of(std::string_view text) { return nb::bytes(text.data(), text.size()); }

template <typename Record>
Column<std::uint8_t> record_bytes(const std::vector<Record>& records, nb::handle owner) {
  const auto bytes = std::as_bytes(std::span(records));
  return Column<std::uint8_t>(reinterpret_cast<const std::uint8_t*>(bytes.data()), {bytes.size()}, owner);
}

template <auto Columns, auto Member>
auto column() {
  return [](nb::handle self) { return view(nb::cast<const EventBlock&>(self).*Columns.*Member, self); };
}

template <auto Records>
auto records() {
  return [](nb::handle self) { return record_bytes(nb::cast<const EventBlock&>(self).*Records, self); };
}

nb::list others(const EventBlock& self) {
  nb::list texts;
  std::uint64_t begin = 0;
  for (const std::uint64_t end : self.other_ends) {
    texts.append(bytes_of(std::string_view(self.other_text).substr(begin, end - begin)));
    begin = end;
  }
  return texts;
}

// Texts of a table from a number on; joined ones as tuples.
template <auto Table, bool IsJoined>
auto texts_from() {
  return [](TraceScanner& self, std::uint32_t first) {
    const InternTable& table = self.collector().texts().*Table;
    nb::list texts;
    for (std::uint32_t number = first; number < table.size(); ++number) {
      if constexpr (IsJoined) {
        nb::list parts;
        for (const std::string_view part : JoinedTexts::split(table.text(number))) {
          parts.append(bytes_of(part));
        }
        texts.append(nb::tuple(parts));
      } else {
        texts.append(bytes_of(table.text(number)));
      }
    }
    return texts;
  };
}

CategoryClasses category_classes(const nb::dict& classes) {
  CategoryClasses native;
  for (const auto& [name, category_class] : classes) {
    native.emplace(nb::cast<std::string>(name),
                   static_cast<CategoryClass>(nb::cast<std::uint8_t>(category_class)));
  }
  return native;
}

nb::dict header(const TraceScanner& self) {
  nb::dict members;
  for (const auto& [name, value] : self.header()) members[nb::str(name.c_str())] = bytes_of(value);
  return members;
}

nb::bytes other_arguments(const nb::bytes& event, std::uint8_t category_class) {
  JsonScanner scanner(bytes_view(event));
  EventText text;
  std::string object;
  if (scanner.peek() == '{' && text.read(scanner)) {
    collect_other_arguments(text, static_cast<CategoryClass>(category_class), object);
  }
  if (object.size() > kMaxArgumentsBytes) throw nb::value_error("the arguments are too long");
  return bytes_of(is_json_object(object) ? object : std::string_view());
}

}  // namespace
}  // namespace torchprof::bindings

void bind_trace_json(nb::module_& m) {
  using namespace torchprof;
  using namespace torchprof::bindings;
  constexpr auto kComplete = &EventBlock::complete;
  constexpr auto kFlows = &EventBlock::flows;
  nb::class_<EventBlock>(m, "TraceBlock")
      .def_prop_ro("start_ns", column<kComplete, &CompleteColumns::start_ns>())
      .def_prop_ro("duration_ns", column<kComplete, &CompleteColumns::duration_ns>())
      .def_prop_ro("name", column<kComplete, &CompleteColumns::name>())
      .def_prop_ro("category", column<kComplete, &CompleteColumns::category>())
      .def_prop_ro("place", column<kComplete, &CompleteColumns::place>())
      .def_prop_ro("inputs", column<kComplete, &CompleteColumns::inputs>())
      .def_prop_ro("flags", column<kComplete, &CompleteColumns::flags>())
      .def_prop_ro("sequence", column<kComplete, &CompleteColumns::sequence>())
      .def_prop_ro("forward_thread", column<kComplete, &CompleteColumns::forward_thread>())
      .def_prop_ro("correlation", column<kComplete, &CompleteColumns::correlation>())
      .def_prop_ro("external_id", column<kComplete, &CompleteColumns::external_id>())
      .def_prop_ro("device_records", records<&EventBlock::devices>())
      .def_prop_ro("arguments_records", records<&EventBlock::arguments>())
      .def_prop_ro("memory_records", records<&EventBlock::memory>())
      .def_prop_ro("flow_category", column<kFlows, &FlowColumns::category>())
      .def_prop_ro("flow_id", column<kFlows, &FlowColumns::id>())
      .def_prop_ro("flow_is_start", column<kFlows, &FlowColumns::is_start>())
      .def_prop_ro("flow_place", column<kFlows, &FlowColumns::place>())
      .def_prop_ro("flow_time_ns", column<kFlows, &FlowColumns::time_ns>())
      .def_ro("arguments_left_out", &EventBlock::arguments_left_out)
      .def_prop_ro("others", others);

  m.attr("NO_TEXT") = kNoText;
  nb::enum_<TraceState>(m, "TraceState")
      .value("READING", TraceState::kReading)
      .value("WHOLE", TraceState::kWhole)
      .value("MALFORMED", TraceState::kMalformed);

  nb::class_<TraceScanner>(m, "TraceScanner")
      .def(
          "__init__",
          [](TraceScanner* self, const nb::dict& classes, const std::vector<std::string>& header_keys) {
            new (self) TraceScanner(category_classes(classes), {header_keys.begin(), header_keys.end()});
          },
          nb::arg("category_classes"), nb::arg("header_keys"))
      .def(
          "feed",
          [](TraceScanner& self, const nb::bytes& piece) {
            const std::string_view text = bytes_view(piece);
            const WithoutGil release;
            self.feed(text);
          },
          nb::arg("piece"))
      .def("finish", &TraceScanner::finish, nb::call_guard<WithoutGil>())
      .def(
          "add_event", [](TraceScanner& self, const nb::bytes& text) { self.add_event(bytes_view(text)); },
          nb::arg("text"))
      .def("take", [](TraceScanner& self) { return self.collector().take(); })
      .def_prop_ro("state", &TraceScanner::state)
      .def_prop_ro("has_events", &TraceScanner::has_events)
      .def_prop_ro("is_among_events", &TraceScanner::is_among_events)
      .def_prop_ro("is_in_event", &TraceScanner::is_in_event)
      .def_prop_ro("arrays_begun", &TraceScanner::arrays_begun)
      .def_prop_ro("header", header)
      .def("names", texts_from<&TraceTexts::names, true>(), nb::arg("first"))
      .def("categories", texts_from<&TraceTexts::categories, false>(), nb::arg("first"))
      .def("places", texts_from<&TraceTexts::places, true>(), nb::arg("first"))
      .def("inputs", texts_from<&TraceTexts::inputs, true>(), nb::arg("first"))
      .def("arguments", texts_from<&TraceTexts::arguments, false>(), nb::arg("first"));

  m.def("other_arguments", other_arguments, nb::arg("event"), nb::arg("category_class"));
}
