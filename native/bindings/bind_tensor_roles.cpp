#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <vector>

#include "bindings/python_values.h"
#include "core/capture.h"

namespace nb = nanobind;

namespace torchprof::bindings {
namespace {

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::uint32_t intern(Capture& self, const nb::bytes& name, const nb::bytes& overload) {
  return self.intern(bytes_view(name), bytes_view(overload));
}

void add_tensor_roles(Capture& self, const Bytes& bytes) {
  if (bytes.size() % sizeof(TensorRoleRecord) != 0) {
    throw std::invalid_argument("not a whole number of records");
  }
  std::vector<TensorRoleRecord> records(bytes.size() / sizeof(TensorRoleRecord));
  std::memcpy(records.data(), bytes.data(), bytes.size());
  self.add_tensor_roles(records);
}

}  // namespace
}  // namespace torchprof::bindings

void bind_tensor_roles(nb::module_& m) {
  using torchprof::Capture;
  namespace bindings = torchprof::bindings;
  nb::borrow<nb::class_<Capture>>(m.attr("Capture"))
      .def("intern", bindings::intern, nb::arg("name"), nb::arg("overload"))
      .def("add_tensor_roles", bindings::add_tensor_roles, nb::arg("records"));
}
