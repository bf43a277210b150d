// The tables beside the events, as bytes: Python sees them through the numpy dtypes of
// recording/side_tables.py.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/python_values.h"
#include "core/builder.h"
#include "core/overruns.h"
#include "sources/python/gil.h"

namespace nb = nanobind;

namespace torchprof::bindings {
namespace {

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <auto Table>
auto table_bytes() {
  return [](nb::handle self) {
    const auto& records = nb::cast<const Recording&>(self).*Table;
    const auto bytes = std::as_bytes(std::span(records));
    return Column<std::uint8_t>(reinterpret_cast<const std::uint8_t*>(bytes.data()), {bytes.size()}, self);
  };
}

// Adds record by record, so that what is wrong with one is said before it is in.
template <typename Record, auto Add>
void add_records(RecordingBuilder& self, const Bytes& bytes) {
  if (bytes.size() % sizeof(Record) != 0) throw std::invalid_argument("not a whole number of records");
  const WithoutGil release;
  for (std::size_t offset = 0; offset < bytes.size(); offset += sizeof(Record)) {
    Record record;
    std::memcpy(&record, bytes.data() + offset, sizeof(record));
    (self.*Add)(record);
  }
}

void add_links(RecordingBuilder& self, const Rows& from_event, const Rows& to_event, std::uint32_t type) {
  if (from_event.size() != to_event.size()) throw std::invalid_argument("columns of different lengths");
  const WithoutGil release;
  for (std::size_t index = 0; index < from_event.size(); ++index) {
    self.add_link(from_event.data()[index], to_event.data()[index], static_cast<LinkType>(type));
  }
}

auto finish_mended(RecordingBuilder& self, std::int64_t rounding_ns, std::int64_t stream_ns) {
  OverrunCounts counts;
  Recording recording = [&] {
    const WithoutGil release;
    Recording finished = self.finish();
    counts = mend_overruns(finished, {.rounding_ns = rounding_ns, .stream_ns = stream_ns});
    return finished;
  }();
  return std::make_pair(std::move(recording),
                        std::make_tuple(counts.rounded, counts.overflowed, counts.crossing));
}

}  // namespace
}  // namespace torchprof::bindings

void bind_side_tables(nb::module_& m) {
  using namespace torchprof;
  using namespace torchprof::bindings;
  nb::borrow<nb::class_<Recording>>(m.attr("Recording"))
      .def_prop_ro("device_records", table_bytes<&Recording::devices>())
      .def_prop_ro("counter_records", table_bytes<&Recording::counters>())
      .def_prop_ro("memory_records", table_bytes<&Recording::memory>())
      .def_prop_ro("tensor_role_records", table_bytes<&Recording::tensor_roles>())
      .def_prop_ro("arguments_records", table_bytes<&Recording::arguments>());
  nb::borrow<nb::class_<RecordingBuilder>>(m.attr("RecordingBuilder"))
      .def(
          "add_payload",
          [](RecordingBuilder& self, const nb::bytes& inputs) {
            return self.add_payload({static_cast<const std::uint8_t*>(inputs.data()), inputs.size()});
          },
          nb::arg("inputs"))
      .def("add_device_records", add_records<DeviceRecord, &RecordingBuilder::add_device>, nb::arg("records"))
      .def("add_counter_records", add_records<CounterRecord, &RecordingBuilder::add_counter>,
           nb::arg("records"))
      .def("add_memory_records", add_records<MemoryRecord, &RecordingBuilder::add_memory>, nb::arg("records"))
      .def("add_arguments_records", add_records<ArgumentsRecord, &RecordingBuilder::add_arguments>,
           nb::arg("records"))
      .def("add_tensor_role_records", add_records<TensorRoleRecord, &RecordingBuilder::add_tensor_role>,
           nb::arg("records"))
      .def("add_links", add_links, nb::arg("from_event"), nb::arg("to_event"), nb::arg("type"))
      .def("finish_mended", finish_mended, nb::arg("rounding_ns"), nb::arg("stream_ns"));
}
