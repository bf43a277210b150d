// What torch's own traces call the events of Python: readers tell their kinds apart by it.
#pragma once

#include <string>
#include <string_view>

#include "core/layout.h"

namespace torchprof {

// Whether traces have it among the calls of Python.
[[nodiscard]] constexpr bool is_python(EventKind kind) noexcept {
  return kind == EventKind::kPython || kind == EventKind::kPythonC || kind == EventKind::kModule;
}

// `file(line): function`, `<built-in function f>`, `nn.Module: Linear`; other kinds are called as they are.
// `overload` holds `file:line` for a Python function.
[[nodiscard]] std::string chrome_name(EventKind kind, std::string_view name, std::string_view overload);

// Whether chrome_name tells all there is to `overload`.
[[nodiscard]] bool chrome_name_holds_overload(EventKind kind, std::string_view overload);

}  // namespace torchprof
