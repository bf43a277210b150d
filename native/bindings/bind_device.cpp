#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/python_values.h"
#include "core/capture.h"
#include "sources/cupti/cupti_collector.h"
#include "sources/device_events/event_timer.h"
#include "sources/python/gil.h"
#include "torch/bridge_abi.h"

namespace nb = nanobind;

namespace torchprof::bindings {
namespace {

// By DeviceKind.
constexpr std::array<std::string_view, 7> kKindNames{"kernel", "memcpy", "memset",  "runtime",
                                                     "driver", "sync",   "overhead"};

DeviceKind kind_of(const std::string& name) {
  for (std::size_t i = 0; i < kKindNames.size(); ++i) {
    if (kKindNames[i] == name) return static_cast<DeviceKind>(i);
  }
  throw std::invalid_argument("no kind of device record is called " + name);
}

// By the names that Kineto's traces have, where they have one. What is not known is left out.
nb::list list_of(const std::vector<DeviceProperties>& devices) {
  nb::list result;
  for (const DeviceProperties& device : devices) {
    nb::dict properties;
    const auto add = [&](const char* name, std::int64_t value) {
      if (value >= 0) properties[name] = value;
    };
    properties["id"] = nb::len(result);
    properties["name"] = text(device.name);
    add("totalGlobalMem", device.memory_bytes);
    add("computeMajor", device.compute_major);
    add("computeMinor", device.compute_minor);
    add("maxThreadsPerBlock", device.max_threads_per_block);
    add("maxThreadsPerMultiprocessor", device.max_threads_per_multiprocessor);
    add("maxBlocksPerMultiprocessor", device.max_blocks_per_multiprocessor);
    add("regsPerBlock", device.registers_per_block);
    add("warpSize", device.warp_size);
    add("sharedMemPerBlock", device.shared_bytes_per_block);
    add("numSms", device.multiprocessors);
    add("regsPerMultiprocessor", device.registers_per_multiprocessor);
    add("sharedMemPerBlockOptin", device.max_shared_bytes_per_block);
    add("sharedMemPerMultiprocessor", device.shared_bytes_per_multiprocessor);
    result.append(properties);
  }
  return result;
}

nb::dict device_probe(const std::vector<std::string>& cupti_paths, bool try_subscribe) {
  DeviceProbe probe;
  {
    const WithoutGil release;
    probe = cupti::CuptiCollector::instance().probe(cupti_paths, try_subscribe);
  }
  nb::dict result;
  result["available"] = probe.reason.empty();
  result["reason"] = text(probe.reason);
  result["library"] = text(probe.library);
  result["cupti_version"] = probe.interface_version;
  result["driver_version"] = probe.driver_version;
  result["devices"] = probe.devices;
  result["properties"] = list_of(probe.properties);
  result["subscriber"] = text(probe.subscriber);
  return result;
}

void start_device(Capture& self, const std::vector<std::string>& cupti_paths,
                  const std::vector<std::string>& kinds, bool correlate_ops, bool graph_level,
                  std::size_t max_buffer_bytes) {
  DeviceOptions options{.libraries = cupti_paths,
                        .kinds = {},
                        .correlate_ops = correlate_ops,
                        .graph_level = graph_level,
                        .max_buffer_bytes = max_buffer_bytes};
  for (const std::string& kind : kinds) options.kinds.push_back(kind_of(kind));
  const WithoutGil release;
  self.start_device(cupti::CuptiCollector::instance(), options);
}

// `events`: address of a table that lives as long as the process.
void start_device_events(Capture& self, std::uintptr_t events) {
  const auto& table = *reinterpret_cast<const torchprof_device_events*>(events);
  const WithoutGil release;
  self.start_device(device_events::EventTimer::of(table), {});
}

nb::dict device_counts(const Capture& self) {
  DeviceCounts counts;
  {
    const WithoutGil release;  // a stop on another thread may take a while
    counts = self.device_counts();
  }
  nb::dict result;
  result["kernels"] = counts.kernels;
  result["copies"] = counts.copies;
  result["memsets"] = counts.memsets;
  result["synchronizations"] = counts.synchronizations;
  result["calls"] = counts.calls;
  result["overheads"] = counts.overheads;
  result["unknown_records"] = counts.unknown_records;
  result["buffers"] = counts.buffers;
  result["decode_ns"] = counts.decode_ns;
  result["buffer_bytes"] = cupti::CuptiCollector::instance().buffer_bytes();
  return result;
}

}  // namespace
}  // namespace torchprof::bindings

void bind_device(nb::module_& m) {
  using namespace torchprof;
  using namespace torchprof::bindings;
  nb::borrow<nb::class_<Capture>>(m.attr("Capture"))
      .def("start_device", start_device, nb::arg("cupti_paths"), nb::arg("kinds"),
           nb::arg("correlate_ops") = true, nb::arg("graph_level") = false,
           nb::arg("max_buffer_bytes") = DeviceOptions{}.max_buffer_bytes)
      .def("start_device_events", start_device_events, nb::arg("events"))
      .def("record_device", &Capture::record_device, nb::arg("wanted"), nb::call_guard<WithoutGil>())
      .def("set_own_device_thread", &Capture::set_own_device_thread, nb::arg("thread_id"),
           nb::call_guard<WithoutGil>())
      .def("stop_device", &Capture::stop_device, nb::call_guard<WithoutGil>())
      .def("device_counts", device_counts);
  m.def("device_probe", device_probe, nb::arg("cupti_paths"), nb::arg("try_subscribe") = false);
}
