#include <nanobind/nanobind.h>

#include "sources/op_ranges/python_listener.h"

namespace nb = nanobind;

void bind_op_ranges(nb::module_& m) {
  m.def("start_op_ranges", torchprof::start_op_ranges, nb::arg("begin"), nb::arg("end"));
  m.def("stop_op_ranges", torchprof::stop_op_ranges, nb::arg("slot"));
  m.def("forget_op_ranges", torchprof::forget_op_ranges);
}
