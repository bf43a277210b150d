#include "encode/chrome_ids.h"

#include <algorithm>
#include <unordered_set>

namespace torchprof {
namespace {

bool is_op(std::uint8_t kind) {
  return kind == static_cast<std::uint8_t>(EventKind::kOp) ||
         kind == static_cast<std::uint8_t>(EventKind::kUser);
}

// Ids beyond this would leave no room for those of ops.
constexpr std::int64_t kLargestRecordedId = std::int64_t{1} << 62;

constexpr std::uint64_t kNoRow = ~std::uint64_t{0};

}  // namespace

ExternalIds::ExternalIds(const Recording& recording, const Tree& tree, std::span<const ChromeFlow> flows)
    : events_(recording.events), tree_(tree) {
  for (const ChromeFlow& flow : flows) {
    if (flow.type == LinkType::kLaunch) launcher_.emplace(flow.to, flow.from);
  }
  for (const DeviceRecord& device : recording.devices) {
    if (device.external_id < 0 || device.external_id > kLargestRecordedId) continue;
    recorded_.emplace(device.event, device.external_id);
    first_free_ = std::max(first_free_, device.external_id + 1);
  }
  give_to_enclosing_ops();
}

void ExternalIds::give_to_enclosing_ops() {
  std::vector<std::uint64_t> calls;
  for (const auto& [row, id] : recorded_) {
    if (is_call(events_.kind[row])) calls.push_back(row);
  }
  std::sort(calls.begin(), calls.end());
  std::unordered_set<std::int64_t> given;
  for (const std::uint64_t call : calls) {
    const std::uint64_t op = enclosing_op(call);
    if (op == kNoRow || recorded_.contains(op)) continue;
    const std::int64_t id = recorded_.at(call);
    if (given.insert(id).second) recorded_.emplace(op, id);
  }
}

std::int64_t ExternalIds::of(std::uint64_t row) const {
  const auto found = recorded_.find(row);
  if (found != recorded_.end()) return found->second;
  const std::uint8_t kind = events_.kind[row];
  if (is_op(kind)) return first_free_ + static_cast<std::int64_t>(row);
  if (is_launched(kind)) {
    const auto launcher = launcher_.find(row);
    if (launcher == launcher_.end() || is_launched(events_.kind[launcher->second])) return kNone;
    return of(launcher->second);
  }
  if (!is_call(kind)) return kNone;
  const std::uint64_t op = enclosing_op(row);
  return op == kNoRow ? kNone : of(op);
}

std::int64_t ExternalIds::of_step(std::uint64_t index) const {
  return first_free_ + static_cast<std::int64_t>(events_.size() + index);
}

std::uint64_t ExternalIds::enclosing_op(std::uint64_t row) const {
  std::int64_t parent = tree_.parent[row];
  while (parent >= 0 && !is_op(events_.kind[static_cast<std::uint64_t>(parent)])) {
    parent = tree_.parent[static_cast<std::uint64_t>(parent)];
  }
  return parent < 0 ? kNoRow : static_cast<std::uint64_t>(parent);
}

}  // namespace torchprof
