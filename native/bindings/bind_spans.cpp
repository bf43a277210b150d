#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_spans(nb::module_&) {}
