#include "spans/device_work.h"

#include <algorithm>
#include <unordered_map>

#include "spans/event_kinds.h"

namespace torchprof {

std::int64_t device_time_ns(const EventTable& events, std::size_t row) noexcept {
  const bool works = is_device_work(static_cast<EventKind>(events.kind[row]));
  return works ? std::max<std::int64_t>(0, events.end_ns[row] - events.start_ns[row]) : 0;
}

const DeviceRecord* find_device_record(const Recording& recording, std::uint64_t row) noexcept {
  const std::vector<DeviceRecord>& devices = recording.devices;
  const auto found =
      std::lower_bound(devices.begin(), devices.end(), row,
                       [](const DeviceRecord& device, std::uint64_t event) { return device.event < event; });
  return found != devices.end() && found->event == row ? &*found : nullptr;
}

std::vector<std::uint32_t> find_launchers(const Recording& recording, const Placement& placement) {
  const EventTable& events = recording.events;
  std::vector<std::uint32_t> launchers(events.size(), kNoEvent);

  if (!events.correlation.empty()) {
    std::unordered_map<std::int64_t, std::uint32_t> by_correlation;
    for (std::size_t row = 0; row < events.size(); ++row) {
      if (events.correlation[row] < 0 || placement.on_device[row]) continue;
      const auto [found, inserted] =
          by_correlation.try_emplace(events.correlation[row], static_cast<std::uint32_t>(row));
      // The runtime call is nearer to the launch than an op that bears the same id.
      if (!inserted && is_runtime_call(static_cast<EventKind>(events.kind[row]))) {
        found->second = static_cast<std::uint32_t>(row);
      }
    }
    for (std::size_t row = 0; row < events.size(); ++row) {
      if (events.correlation[row] < 0 || !placement.on_device[row]) continue;
      const auto found = by_correlation.find(events.correlation[row]);
      if (found != by_correlation.end()) launchers[row] = found->second;
    }
  }

  for (std::size_t i = 0; i < recording.links.type.size(); ++i) {
    if (recording.links.type[i] != static_cast<std::uint32_t>(LinkType::kLaunch)) continue;
    std::uint64_t launcher = recording.links.from[i];
    std::uint64_t launched = recording.links.to[i];
    if (launcher >= events.size() || launched >= events.size()) continue;
    if (placement.on_device[launcher]) std::swap(launcher, launched);
    if (placement.on_device[launcher] || !placement.on_device[launched]) continue;
    launchers[launched] = static_cast<std::uint32_t>(launcher);
  }
  return launchers;
}

SubtreeWork sum_subtrees(const Recording& recording, const Tree& tree, const Placement& placement,
                         const std::vector<std::uint32_t>& launchers) {
  const EventTable& events = recording.events;
  SubtreeWork work;
  work.cpu_ns.resize(placement.nodes());
  work.device_ns.resize(placement.nodes());
  work.kernels.resize(placement.nodes());

  const auto add_device_work = [&](Node node, std::int64_t device_ns, bool is_kernel) {
    work.device_ns[node] += device_ns;
    work.kernels[node] += is_kernel ? 1 : 0;
  };
  for (std::size_t row = 0; row < events.size(); ++row) {
    if (!placement.on_device[row]) {
      work.cpu_ns[row] += tree.self_ns[row];
      continue;
    }
    const std::int64_t device_ns = device_time_ns(events, row);
    const bool is_kernel = static_cast<EventKind>(events.kind[row]) == EventKind::kKernel;
    add_device_work(static_cast<Node>(row), device_ns, is_kernel);
    const std::uint32_t launcher = launchers[row];
    add_device_work(launcher != kNoEvent ? launcher : placement.root_node(placement.root[row]), device_ns,
                    is_kernel);
  }
  // Parents stand before their children, so one pass from the back sums whole subtrees.
  for (std::size_t row = events.size(); row-- > 0;) {
    const Node parent = placement.parent[row];
    work.cpu_ns[parent] += work.cpu_ns[row];
    work.device_ns[parent] += work.device_ns[row];
    work.kernels[parent] += work.kernels[row];
  }
  return work;
}

}  // namespace torchprof
