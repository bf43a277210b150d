#include "core/step_phases.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/layout.h"

namespace torchprof {
namespace {

constexpr std::uint8_t kBackwardFunction = 1;  // at::RecordScope::BACKWARD_FUNCTION
constexpr std::string_view kNodeRun = "autograd::engine::evaluate_function: ";

bool is_unknown(const Step& step) { return step.phase == StepPhase::kUnknown; }

// By string id. Traces of torch.profiler do not say what scope an event has.
std::vector<bool> names_of_backwards(const StringPool& strings) {
  std::vector<bool> is_backward(strings.size());
  for (std::uint32_t id = 0; id < strings.size(); ++id) {
    is_backward[id] = strings.name(id).starts_with(kNodeRun);
  }
  return is_backward;
}

bool is_on_cpu(std::uint8_t kind) {
  return kind == static_cast<std::uint8_t>(EventKind::kOp) ||
         kind == static_cast<std::uint8_t>(EventKind::kUser);
}

}  // namespace

void find_step_phases(Recording& recording) {
  std::vector<Step>& steps = recording.steps;
  if (std::none_of(steps.begin(), steps.end(), is_unknown)) return;
  const EventTable& events = recording.events;
  const std::vector<bool> is_backward_name = names_of_backwards(recording.strings);
  for (std::size_t row = 0; row < events.size(); ++row) {
    const bool is_backward = events.scope[row] == kBackwardFunction || events.forward_thread[row] != 0 ||
                             is_backward_name[events.name[row]];
    if (!is_backward || !is_on_cpu(events.kind[row])) continue;
    const std::int64_t start_ns = events.start_ns[row];
    const auto later =
        std::upper_bound(steps.begin(), steps.end(), start_ns,
                         [](std::int64_t time_ns, const Step& step) { return time_ns < step.start_ns; });
    if (later == steps.begin()) continue;
    Step& step = *(later - 1);
    if (is_unknown(step) && start_ns < step.end_ns) step.phase = StepPhase::kTrain;
  }
}

}  // namespace torchprof
