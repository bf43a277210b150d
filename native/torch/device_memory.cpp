#include "torch/device_memory.h"

#include "torch/bridge_abi.h"

#if defined(TORCHPROF_WITH_CUDA)

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include "torch/core_table.h"
#include "torch/memory.h"
#include "torch/switch_lock.h"

namespace torchprof::bridge {
namespace {

namespace caching_allocator = c10::cuda::CUDACachingAllocator;
using Action = caching_allocator::TraceEntry::Action;

constexpr auto kCuda = static_cast<std::uint8_t>(c10::DeviceType::CUDA);

// Called under the allocator's lock: it must call nothing of torch.
void on_trace(const caching_allocator::TraceEntry& entry) noexcept {
  const auto report = [&entry](std::uint8_t action, std::uint64_t address) {
    report_memory(action, address, entry.size_, kCuda, entry.device_);
  };
  switch (entry.action_) {
    case Action::ALLOC:
      return report(TORCHPROF_MEMORY_ALLOCATED, entry.addr_);
    // When the program lets go of it; the block may be kept from others until streams are done with it.
    case Action::FREE_REQUESTED:
      return report(TORCHPROF_MEMORY_FREED, entry.addr_);
    case Action::OOM:
      return report(TORCHPROF_MEMORY_OUT_OF_MEMORY, 0);
    case Action::SEGMENT_ALLOC:
    case Action::SEGMENT_MAP:
      return report(TORCHPROF_MEMORY_SEGMENT_RESERVED, entry.addr_);
    case Action::SEGMENT_FREE:
    case Action::SEGMENT_UNMAP:
      return report(TORCHPROF_MEMORY_SEGMENT_RELEASED, entry.addr_);
    default:
      return;
  }
}

void report_reserved(std::uint32_t slot) {
  constexpr auto kAggregate = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  for (c10::DeviceIndex device = 0; device < c10::cuda::device_count(); ++device) {
    const std::int64_t reserved_bytes =
        caching_allocator::getDeviceStats(device).reserved_bytes[kAggregate].current;
    const torchprof_memory_event event{
        .address = 0,
        .size_bytes = static_cast<std::uint64_t>(reserved_bytes),
        .device = device,
        .device_type = kCuda,
        .action = TORCHPROF_MEMORY_SEGMENT_RESERVED,
    };
    core->memory_event(slot, &event);
  }
}

bool is_watching = false;

}  // namespace

int enable_device_memory(std::uint32_t slot) {
  if (slot >= TORCHPROF_CAPTURE_SLOTS) return TORCHPROF_NO_SUCH_SLOT;
  try {
    const std::unique_lock lock = lock_switches();
    // A tracker cannot be taken away again: it is attached once and asks who wants to know.
    if (!is_watching) {
      caching_allocator::attachAllocatorTraceTracker(on_trace);
      is_watching = true;
    }
    report_reserved(slot);
    return TORCHPROF_OK;
  } catch (...) {
    return TORCHPROF_TORCH_REFUSED;
  }
}

}  // namespace torchprof::bridge

#else

namespace torchprof::bridge {

int enable_device_memory(std::uint32_t) { return TORCHPROF_WITHOUT_CUDA; }

}  // namespace torchprof::bridge

#endif
