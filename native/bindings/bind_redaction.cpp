#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>
#include <string_view>

#include "bindings/python_values.h"
#include "core/redaction.h"
#include "sources/python/gil.h"

namespace nb = nanobind;

namespace torchprof::bindings {
namespace {

// `replace` takes a str and returns one that is valid UTF-8.
Recording redacted(const Recording& self, const nb::callable& replace) {
  const WithoutGil without_gil;
  return redact(self, [&replace](std::string_view recorded) {
    const WithGil with_gil;
    return nb::cast<std::string>(replace(text(recorded)));
  });
}

}  // namespace
}  // namespace torchprof::bindings

void bind_redaction(nb::module_& m) {
  using namespace torchprof;
  using namespace torchprof::bindings;
  nb::borrow<nb::class_<Recording>>(m.attr("Recording")).def("redacted", redacted, nb::arg("replace"));
}
