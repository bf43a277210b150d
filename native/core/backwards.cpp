#include "core/backwards.h"

#include <cstddef>
#include <string_view>

#include "core/layout.h"

namespace torchprof {
namespace {

constexpr std::uint8_t kBackwardFunction = 1;  // at::RecordScope::BACKWARD_FUNCTION
constexpr std::string_view kNodeRun = "autograd::engine::evaluate_function: ";

bool is_on_cpu(std::uint8_t kind) {
  return kind == static_cast<std::uint8_t>(EventKind::kOp) ||
         kind == static_cast<std::uint8_t>(EventKind::kUser);
}

}  // namespace

std::vector<std::uint8_t> backward_events(const Recording& recording) {
  const StringPool& strings = recording.strings;
  std::vector<bool> is_backward_name(strings.size());
  for (std::uint32_t id = 0; id < strings.size(); ++id) {
    is_backward_name[id] = strings.name(id).starts_with(kNodeRun);
  }
  const EventTable& events = recording.events;
  std::vector<std::uint8_t> begins(events.size());
  for (std::size_t row = 0; row < events.size(); ++row) {
    const bool is_backward = events.scope[row] == kBackwardFunction || events.forward_thread[row] != 0 ||
                             is_backward_name[events.name[row]];
    begins[row] = is_backward && is_on_cpu(events.kind[row]) ? 1 : 0;
  }
  return begins;
}

}  // namespace torchprof
