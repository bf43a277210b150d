#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "bindings/python_values.h"
#include "core/capture.h"
#include "core/clock.h"
#include "core/drop_reason.h"
#include "core/memory_budget.h"
#include "core/op_hooks.h"
#include "core/reader.h"
#include "sources/python/gil.h"

namespace nb = nanobind;

namespace torchprof::bindings {
namespace {

void construct(Capture* self, nb::handle path, std::uint64_t cap_bytes) {
  new (self) Capture(path.is_none() ? std::string() : file_path(path), cap_bytes);
}

void begin_step(Capture& self, std::int64_t number, std::uint8_t phase, std::uint8_t flags,
                const nb::bytes& context, std::uint8_t context_trace_flags, const nb::bytes& links) {
  self.begin_step({.number = number,
                   .phase = static_cast<StepPhase>(phase),
                   .flags = flags,
                   .context = bytes_view(context),
                   .trace_flags = context_trace_flags,
                   .links = bytes_view(links)});
}

void add_context(Capture& self, const nb::bytes& context, std::uint8_t trace_flags, bool is_root,
                 const nb::bytes& links) {
  self.add_context({.context = bytes_view(context),
                    .trace_flags = trace_flags,
                    .flags = static_cast<std::uint8_t>(is_root ? kContextIsRoot : 0),
                    .links = bytes_view(links)});
}

nb::dict drops(const Capture& self) {
  const DropCounts counts = self.drops();
  nb::dict by_reason;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] != 0) {
      by_reason[text(drop_reason_name(i))] = counts[i];
    }
  }
  return by_reason;
}

Recording recording(const Capture& self) {
  if (self.lost_in_fork()) {
    throw std::runtime_error("this recording belongs to the parent process");
  }
  // The rate of a capture that goes on comes from the clocks now: it may have stored none yet.
  ReadOptions options;
  if (self.slot() >= 0) {
    options.clock_now = read_clock_pair();
  }
  return read_recording(self.bytes(), self.owner(), options);
}

std::uintptr_t core_table_address() { return reinterpret_cast<std::uintptr_t>(&core_table()); }

}  // namespace
}  // namespace torchprof::bindings

void bind_capture(nb::module_& m) {
  using torchprof::Capture;
  namespace bindings = torchprof::bindings;
  const nb::call_guard<torchprof::WithoutGil> without_gil;

  nb::class_<Capture>(m, "Capture")
      .def("__init__", bindings::construct, nb::arg("path").none(), nb::arg("cap_bytes"))
      .def("start", &Capture::start, without_gil)
      .def("stop", &Capture::stop, without_gil)
      .def("begin_step", bindings::begin_step, nb::arg("number"), nb::arg("phase"), nb::arg("flags"),
           nb::arg("context"), nb::arg("context_trace_flags"), nb::arg("links"))
      .def("end_step", &Capture::end_step)
      .def("add_context", bindings::add_context, nb::arg("context"), nb::arg("trace_flags"),
           nb::arg("is_root"), nb::arg("links"))
      .def("name_thread", &Capture::name_thread, nb::arg("os_thread_id"), nb::arg("name"))
      .def(
          "add_metadata",
          [](Capture& self, const nb::bytes& json_object) {
            self.add_metadata(bindings::bytes_view(json_object));
          },
          nb::arg("json_object"))
      .def("drops", bindings::drops)
      .def("recording", bindings::recording, without_gil)
      .def_prop_ro("slot", &Capture::slot)
      .def_prop_ro("recorded", &Capture::recorded, without_gil)
      .def_prop_ro("fallback_reason", &Capture::fallback_reason)
      .def_prop_ro("lost_in_fork", &Capture::lost_in_fork);
  m.def("core_table_address", bindings::core_table_address);
  m.def(
      "bound_recordings", [](std::uint64_t limit_bytes) { torchprof::process_memory.set_limit(limit_bytes); },
      nb::arg("limit_bytes"));
  m.def("memory_of_recordings", [] { return torchprof::process_memory.taken_bytes(); });
}
