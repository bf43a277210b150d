#include "encode/chrome_modules.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace torchprof {
namespace {

constexpr std::string_view kForward = ".forward";
constexpr std::string_view kModulePlace = "torch/nn/modules/module.py:";

enum class Role : std::uint8_t {
  kNone,
  kCall,     // nn.Module.__call__
  kBetween,  // what it calls `forward` by
  kForward,
};

Role role_of(std::string_view function, std::string_view place) {
  if (place.find(kModulePlace) != std::string_view::npos) {
    if (function == "Module._wrapped_call_impl") return Role::kCall;
    // `Module._call_impl.<locals>.inner` where there are hooks.
    if (function.starts_with("Module._call_impl") || function == "Module._slow_forward")
      return Role::kBetween;
  }
  return function.ends_with(kForward) ? Role::kForward : Role::kNone;
}

bool is_of_kind(const EventTable& events, std::size_t row, EventKind kind) {
  return events.kind[row] == static_cast<std::uint8_t>(kind);
}

bool has_modules(const EventTable& events) {
  const auto module = static_cast<std::uint8_t>(EventKind::kModule);
  return std::find(events.kind.begin(), events.kind.end(), module) != events.kind.end();
}

}  // namespace

ModuleCalls::ModuleCalls(const Recording& recording, const Tree& tree) : strings_(recording.strings) {
  const EventTable& events = recording.events;
  if (has_modules(events)) return;
  std::vector<Role> roles(strings_.size());
  for (std::uint32_t id = 0; id < roles.size(); ++id)
    roles[id] = role_of(strings_.name(id), strings_.overload(id));
  if (std::find(roles.begin(), roles.end(), Role::kCall) == roles.end()) return;

  const auto role = [&](std::int64_t row) {
    const auto index = static_cast<std::size_t>(row);
    if (row < 0 || !is_of_kind(events, index, EventKind::kPython)) return Role::kNone;
    return roles[events.name[index]];
  };
  for (std::size_t row = 0; row < events.size(); ++row) {
    if (role(static_cast<std::int64_t>(row)) != Role::kForward) continue;
    std::int64_t caller = tree.parent[row];
    while (role(caller) == Role::kBetween) caller = tree.parent[static_cast<std::size_t>(caller)];
    if (role(caller) == Role::kCall)
      forward_.try_emplace(static_cast<std::uint64_t>(caller), events.name[row]);
  }
}

std::string_view ModuleCalls::class_of(std::uint64_t row) const {
  const auto found = forward_.find(row);
  if (found == forward_.end()) return {};
  std::string_view name = strings_.name(found->second);
  name.remove_suffix(kForward.size());
  return name.substr(name.rfind('.') + 1);  // npos + 1 is 0
}

std::int64_t ModuleCalls::number_of(std::uint64_t row) const { return forward_.at(row); }

}  // namespace torchprof
