// What is known of memory, made from a recording on request.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/python_values.h"
#include "core/event_memory.h"
#include "core/tensor_table.h"
#include "core/tree.h"
#include "sources/python/gil.h"

namespace nb = nanobind;

namespace torchprof::bindings {
namespace {

// Records as bytes: Python sees them through the numpy dtypes of recording/side_tables.py.
template <typename Record>
Column<std::uint8_t> record_bytes(std::vector<Record>&& records) {
  auto* const owned = new std::vector<Record>(std::move(records));
  const nb::capsule owner(owned,
                          [](void* pointer) noexcept { delete static_cast<std::vector<Record>*>(pointer); });
  const auto bytes = std::as_bytes(std::span(*owned));
  return Column<std::uint8_t>(reinterpret_cast<const std::uint8_t*>(bytes.data()), {bytes.size()}, owner);
}

auto tensor_records(const Recording& recording) {
  TensorTable table;
  {
    const WithoutGil release;
    table = tensor_table(recording);
  }
  return std::make_pair(record_bytes(std::move(table.rows)), table.damaged_inputs);
}

auto memory_by_event(const Recording& recording, const Tree& tree, bool on_devices) {
  if (tree.parent.size() != recording.events.size()) throw std::invalid_argument("tree of another recording");
  EventMemory memory;
  {
    const WithoutGil release;
    memory = event_memory(recording, tree, on_devices ? MemoryOf::kDevices : MemoryOf::kHost);
  }
  return std::make_tuple(array(std::move(memory.allocated)), array(std::move(memory.freed)),
                         array(std::move(memory.self_allocated)), array(std::move(memory.self_freed)),
                         array(std::move(memory.peak)));
}

}  // namespace
}  // namespace torchprof::bindings

void bind_memory(nb::module_& m) {
  using namespace torchprof;
  nb::borrow<nb::class_<Recording>>(m.attr("Recording"))
      .def("tensor_records", bindings::tensor_records)
      .def("memory_by_event", bindings::memory_by_event, nb::arg("tree"), nb::arg("on_devices"));
}
