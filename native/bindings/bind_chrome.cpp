#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "bindings/python_values.h"
#include "core/recording.h"
#include "encode/chrome_encoder.h"
#include "sources/python/gil.h"

namespace nb = nanobind;

namespace torchprof::bindings {
namespace {

ProcessNames process_names(const nb::dict& names) {
  ProcessNames by_id;
  for (const auto& [id, name] : names) {
    by_id.emplace(nb::cast<std::int64_t>(id), bytes_view(nb::cast<nb::bytes>(name)));
  }
  return by_id;
}

std::vector<float> floats_of(const nb::bytes& bytes) {
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.c_str(), floats.size() * sizeof(float));
  return floats;
}

// The GIL is held only while a full buffer is handed over.
nb::dict write_chrome(const Recording& recording, const nb::bytes& header, const nb::dict& names,
                      bool categories_of_2021, const std::vector<std::uint8_t>& left_out_kinds,
                      const nb::bytes& occupancy_percent, const nb::callable& write) {
  const ChromeOptions options{.header = bytes_view(header),
                              .process_names = process_names(names),
                              .categories_of_2021 = categories_of_2021,
                              .left_out_kinds = left_out_kinds,
                              .occupancy_percent = floats_of(occupancy_percent)};
  ChromeCounts counts;
  {
    const WithoutGil release;
    counts = encode_chrome(recording, options, [&](std::string_view piece) {
      const WithGil acquire;
      write(nb::bytes(piece.data(), piece.size()));
    });
  }
  nb::dict result;
  result["slices"] = counts.slices;
  result["async_events"] = counts.async_events;
  result["instants"] = counts.instants;
  result["flows"] = counts.flows;
  result["steps"] = counts.steps;
  result["counters"] = counts.counters;
  result["size_bytes"] = counts.size_bytes;
  return result;
}

}  // namespace
}  // namespace torchprof::bindings

void bind_chrome(nb::module_& m) {
  using namespace torchprof::bindings;
  m.def("write_chrome", write_chrome, nb::arg("recording"), nb::arg("header"), nb::arg("process_names"),
        nb::arg("categories_of_2021"), nb::arg("left_out_kinds"), nb::arg("occupancy_percent"),
        nb::arg("write"));
}
