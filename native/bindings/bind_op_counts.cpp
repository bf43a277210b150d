#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "bindings/python_values.h"
#include "core/aggregate/op_aggregator.h"
#include "sources/python/gil.h"

namespace nb = nanobind;

namespace torchprof::bindings {
namespace {

nb::tuple collect(OpAggregator& self) {
  OpCountColumns columns;
  {
    const WithoutGil without_gil;
    columns = self.collect();
  }
  nb::list names;
  for (const std::string_view name : columns.name) {
    names.append(text(name));
  }
  std::vector<std::uint8_t> phases;
  phases.reserve(columns.phase.size());
  for (const Phase phase : columns.phase) {
    phases.push_back(static_cast<std::uint8_t>(phase));
  }
  return nb::make_tuple(names, array(std::move(phases)), array(std::move(columns.is_user)),
                        array(std::move(columns.calls)), array(std::move(columns.total_ns)),
                        array(std::move(columns.self_ns)), array(std::move(columns.duration_counts)));
}

nb::dict count_drops(const OpAggregator& self) {
  const CountDrops counts = self.drops();
  nb::dict by_reason;
  for (std::size_t reason = 0; reason < kCountDrops; ++reason) {
    if (counts[reason] != 0) {
      by_reason[text(kCountDropNames[reason])] = counts[reason];
    }
  }
  return by_reason;
}

}  // namespace
}  // namespace torchprof::bindings

void bind_op_counts(nb::module_& m) {
  using torchprof::OpAggregator;
  namespace bindings = torchprof::bindings;

  nb::class_<OpAggregator>(m, "OpAggregator")
      .def(nb::init<std::size_t, bool>(), nb::arg("max_names"), nb::arg("with_durations"))
      .def("start", &OpAggregator::start)
      .def("stop", &OpAggregator::stop)
      .def("set_weight", &OpAggregator::set_weight, nb::arg("weight"))
      .def("set_inference", &OpAggregator::set_inference, nb::arg("is_inference"))
      .def("collect", bindings::collect)
      .def("drops", bindings::count_drops)
      .def_prop_ro("counted", &OpAggregator::counted)
      .def_prop_ro("lost_in_fork", &OpAggregator::lost_in_fork);
}
