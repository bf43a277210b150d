#include "encode/chrome_links.h"

#include <utility>

#include "core/links.h"

namespace torchprof {
namespace {

// The first call of each correlation id.
std::unordered_map<std::int64_t, std::uint64_t> calls_by_correlation(const EventTable& events) {
  std::unordered_map<std::int64_t, std::uint64_t> calls;
  for (std::uint64_t row = 0; row < events.correlation.size(); ++row) {
    if (events.correlation[row] >= 0 && is_call(events.kind[row]))
      calls.try_emplace(events.correlation[row], row);
  }
  return calls;
}

}  // namespace

std::vector<ChromeFlow> chrome_flows(const Recording& recording) {
  const EventTable& events = recording.events;
  const LinkTable& links = recording.links;
  std::vector<ChromeFlow> flows;
  std::vector<bool> is_linked(events.size());  // as work that was launched, or as a backward op
  for (std::size_t index = 0; index < links.from.size(); ++index) {
    ChromeFlow flow{links.from[index], links.to[index], static_cast<LinkType>(links.type[index])};
    // A backward op links to its forward op, but the flow runs the other way; launches come either way round.
    const bool is_backwards = flow.type == LinkType::kForwardBackward ||
                              (flow.type == LinkType::kLaunch && is_launched(events.kind[flow.from]));
    if (is_backwards) std::swap(flow.from, flow.to);
    if (flow.type != LinkType::kOther) is_linked[flow.to] = true;
    flows.push_back(flow);
  }

  const LinkTable derived = forward_backward_links(recording);
  for (std::size_t index = 0; index < derived.from.size(); ++index) {
    const std::uint64_t backward = derived.from[index];
    if (!is_linked[backward]) flows.push_back({derived.to[index], backward, LinkType::kForwardBackward});
  }
  const auto calls = calls_by_correlation(events);
  for (std::uint64_t row = 0; row < events.correlation.size() && !calls.empty(); ++row) {
    if (events.correlation[row] < 0 || !is_launched(events.kind[row]) || is_linked[row]) continue;
    const auto call = calls.find(events.correlation[row]);
    if (call != calls.end()) flows.push_back({call->second, row, LinkType::kLaunch});
  }
  return flows;
}

}  // namespace torchprof
