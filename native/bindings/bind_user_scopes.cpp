#include <nanobind/nanobind.h>

#include <cstdint>
#include <stdexcept>

#include "core/thread_state.h"
#include "core/user_scope.h"
#include "sources/user_scopes/span_object.h"

namespace nb = nanobind;

namespace torchprof::bindings {
namespace {

void listen(std::uint32_t slot, bool wanted) {
  if (slot >= kSlots) {
    throw std::invalid_argument("no such capture slot");
  }
  listen_to_scopes(slot, wanted);
}

}  // namespace
}  // namespace torchprof::bindings

void bind_user_scopes(nb::module_& m) {
  torchprof::add_span(m);
  m.def("set_span_decorator", torchprof::set_span_decorator, nb::arg("decorate"));
  m.def("set_span_observer", torchprof::set_span_observer, nb::arg("observer").none());
  m.def("record_scopes", torchprof::bindings::listen, nb::arg("slot"), nb::arg("wanted"));
  m.def(
      "count_scopes", [](bool wanted) { torchprof::listen_to_scopes(torchprof::kCountingUser, wanted); },
      nb::arg("wanted"));
}
