#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bindings/python_values.h"
#include "core/capture.h"
#include "sources/perf_events/perf_source.h"
#include "sources/python/gil.h"

namespace nb = nanobind;

namespace torchprof::bindings {
namespace {

// [(name, counts, remark)]
nb::list states_of(const perf::ChosenCounters& chosen) {
  nb::list states;
  for (const perf::CounterState& state : chosen.states) {
    states.append(nb::make_tuple(text(state.name), state.counts, text(state.remark)));
  }
  return states;
}

nb::list start_counters(Capture& self, const std::vector<std::string>& names, bool over_ops) {
  perf::ChosenCounters chosen;
  {
    const WithoutGil release;
    chosen = perf::choose_counters(names);
    if (chosen.source != nullptr) {
      self.start_counters(std::move(chosen.source), chosen.names,
                          over_ops ? CounterScope::kOps : CounterScope::kUserSpans);
    }
  }
  return states_of(chosen);
}

// (states, nanoseconds that reading them all takes, whether that goes without the kernel)
nb::tuple try_counters(const std::vector<std::string>& names) {
  perf::ChosenCounters chosen;
  double read_ns = 0;
  {
    const WithoutGil release;
    chosen = perf::choose_counters(names);
    if (chosen.source != nullptr) read_ns = perf::measure_read_ns(*chosen.source);
  }
  return nb::make_tuple(states_of(chosen), read_ns, chosen.reads_without_kernel);
}

}  // namespace
}  // namespace torchprof::bindings

void bind_counters(nb::module_& m) {
  using namespace torchprof;
  using namespace torchprof::bindings;
  nb::borrow<nb::class_<Capture>>(m.attr("Capture"))
      .def("start_counters", start_counters, nb::arg("names"), nb::arg("over_ops"))
      .def("stop_counters", &Capture::stop_counters, nb::call_guard<WithoutGil>());
  m.def("try_counters", try_counters, nb::arg("names"));
}
