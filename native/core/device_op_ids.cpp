#include "core/device_op_ids.h"

#include <algorithm>
#include <new>

#include "core/device_collector.h"

namespace torchprof {

void PushedOps::push(DeviceCollector& collector, std::uint64_t id, const OpRecord& op) noexcept {
  if (ops_.size() == kMaxPushed) {
    return;  // by thread and time, as where nothing is pushed
  }
  try {
    ops_.push_back(&op);
  } catch (const std::bad_alloc&) {
    return;
  }
  collector_ = &collector;
  if (!collector.push(id)) {
    ops_.pop_back();
  }
}

void PushedOps::pop(const OpRecord& op) noexcept {
  const auto found = std::find(ops_.rbegin(), ops_.rend(), &op);
  if (found != ops_.rend()) {
    pop_from(static_cast<std::size_t>(ops_.rend() - found) - 1);
  }
}

void PushedOps::pop_all() noexcept { pop_from(0); }

void PushedOps::pop_from(std::size_t first) noexcept {
  if (first < ops_.size()) {
    collector_->pop(ops_.size() - first);
    ops_.resize(first);
  }
}

}  // namespace torchprof
