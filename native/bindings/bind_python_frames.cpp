#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "sources/python_frames/watched_threads.h"

namespace nb = nanobind;

namespace torchprof::bindings {
namespace {

void start(std::uint32_t slot, std::string own_package, std::string standard_library,
           std::string site_packages, const ThreadIdents& own_threads) {
  if (slot >= kSlots) {
    throw std::invalid_argument("no such capture slot");
  }
  if (!start_python_frames(slot,
                           {.own_package = std::move(own_package),
                            .standard_library = std::move(standard_library),
                            .site_packages = std::move(site_packages)},
                           own_threads)) {
    throw nb::python_error();
  }
}

void stop(std::uint32_t slot) {
  if (slot < kSlots) {
    stop_python_frames(slot);
  }
}

}  // namespace
}  // namespace torchprof::bindings

void bind_python_frames(nb::module_& m) {
  namespace bindings = torchprof::bindings;
  m.def("start_python_frames", bindings::start, nb::arg("slot"), nb::arg("own_package"),
        nb::arg("standard_library"), nb::arg("site_packages"), nb::arg("own_threads"));
  m.def("watch_python_threads", torchprof::watch_python_threads, nb::arg("own_threads"));
  m.def("watch_current_python_thread", torchprof::watch_current_python_thread);
  m.def("stop_python_frames", bindings::stop, nb::arg("slot"));
}
