#include <nanobind/nanobind.h>

#include <cstdint>
#include <utility>

#include "bindings/python_values.h"
#include "sources/modules/module_calls.h"

namespace nb = nanobind;

namespace torchprof::bindings {
namespace {

void start_modules(std::uint32_t slot, nb::object graph_task, bool outermost_only) {
  ModuleCalls::instance().start(slot, std::move(graph_task), outermost_only);
}

nb::list stop_modules(std::uint32_t slot) {
  nb::list called;
  for (CalledModule& module : ModuleCalls::instance().stop(slot)) {
    called.append(nb::make_tuple(text(module.root_class), text(module.path), text(module.class_name),
                                 std::move(module.module)));
  }
  return called;
}

}  // namespace
}  // namespace torchprof::bindings

void bind_modules(nb::module_& m) {
  using torchprof::ModuleCalls;
  namespace bindings = torchprof::bindings;

  m.def("start_modules", bindings::start_modules, nb::arg("slot"), nb::arg("graph_task"),
        nb::arg("outermost_only"));
  m.def("stop_modules", bindings::stop_modules, nb::arg("slot"));
  m.def("forget_modules", [] { ModuleCalls::instance().forget(); });
  m.def("begin_module", [](nb::handle module) { return ModuleCalls::instance().begin(module.ptr()); });
  m.def("fail_module", [](nb::handle module, nb::handle error_type) {
    ModuleCalls::instance().fail(module.ptr(), error_type.ptr());
  });
  m.def("end_module", [](nb::handle module) { ModuleCalls::instance().end(module.ptr()); });
}
