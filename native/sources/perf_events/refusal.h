// Why the kernel refuses to count an event, and the way out.
#pragma once

#include <string>

#include "sources/perf_events/event_name.h"
#include "sources/perf_events/perf_api.h"

namespace torchprof::perf {

// One line: the name of the errno value, the cause, the way out. `works_alone`: the event was refused beside
// others only.
[[nodiscard]] std::string refusal(int error, const Event& event, bool works_alone, const PerfApi& api);

}  // namespace torchprof::perf
