#include "core/step_phases.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/backwards.h"
#include "core/layout.h"

namespace torchprof {
namespace {

bool is_unknown(const Step& step) { return step.phase == StepPhase::kUnknown; }

}  // namespace

void find_step_phases(Recording& recording) {
  std::vector<Step>& steps = recording.steps;
  if (std::none_of(steps.begin(), steps.end(), is_unknown)) return;
  const std::vector<std::uint8_t> is_backward = backward_events(recording);
  for (std::size_t row = 0; row < is_backward.size(); ++row) {
    if (is_backward[row] == 0) continue;
    const std::int64_t start_ns = recording.events.start_ns[row];
    const auto later =
        std::upper_bound(steps.begin(), steps.end(), start_ns,
                         [](std::int64_t time_ns, const Step& step) { return time_ns < step.start_ns; });
    if (later == steps.begin()) continue;
    Step& step = *(later - 1);
    if (is_unknown(step) && start_ns < step.end_ns) step.phase = StepPhase::kTrain;
  }
}

}  // namespace torchprof
