#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <span>
#include <string>

#include "core/plain_pickle.h"
#include "sources/python/gil.h"

namespace nb = nanobind;

namespace torchprof::bindings {
namespace {

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::string why_not(const Bytes& pickle, std::uint64_t max_memory_bytes) {
  const WithoutGil without_gil;
  return why_not_plain_pickle(std::span(pickle.data(), pickle.size()), max_memory_bytes);
}

}  // namespace
}  // namespace torchprof::bindings

void bind_pickle(nb::module_& m) {
  m.def("why_not_plain_pickle", torchprof::bindings::why_not, nb::arg("pickle"), nb::arg("max_memory_bytes"));
}
