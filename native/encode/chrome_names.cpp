#include "encode/chrome_names.h"

#include <algorithm>

namespace torchprof {
namespace {

constexpr std::string_view kModulePrefix = "nn.Module: ";
constexpr std::string_view kBuiltinPrefix = "<built-in ";

struct Place {
  std::string_view file;
  std::string_view line;
};

// Of `file:line`; without a line where it is no such thing.
Place split_place(std::string_view place) {
  const std::size_t colon = place.rfind(':');
  if (colon == std::string_view::npos) return {};
  const std::string_view line = place.substr(colon + 1);
  const bool is_number =
      !line.empty() && std::all_of(line.begin(), line.end(), [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? Place{.file = place.substr(0, colon), .line = line} : Place{};
}

}  // namespace

std::string chrome_name(EventKind kind, std::string_view name, std::string_view overload) {
  std::string text;
  if (kind == EventKind::kPython) {
    if (const Place place = split_place(overload); !place.line.empty()) {
      text.append(place.file).append("(").append(place.line).append("): ");
    }
  } else if (kind == EventKind::kPythonC && !name.starts_with(kBuiltinPrefix)) {
    return text.append(kBuiltinPrefix).append("function ").append(name).append(">");
  } else if (kind == EventKind::kModule && !name.starts_with(kModulePrefix)) {
    text = kModulePrefix;
  }
  return text.append(name);
}

bool chrome_name_holds_overload(EventKind kind, std::string_view overload) {
  return kind == EventKind::kPython && !split_place(overload).line.empty();
}

}  // namespace torchprof
