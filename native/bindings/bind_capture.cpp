#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_capture(nb::module_&) {}
