#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_recording(nb::module_&) {}
