#include "core/drop_reason.h"

namespace torchprof {

std::string_view drop_reason_name(std::size_t index) noexcept {
  switch (static_cast<DropReason>(index)) {
    case DropReason::kByteCap:
      return "byte_cap";
    case DropReason::kDiskFull:
      return "disk_full";
    case DropReason::kNoThreadState:
      return "no_thread_state";
    case DropReason::kStackTooDeep:
      return "stack_too_deep";
    case DropReason::kPayloadTooLarge:
      return "payload_too_large";
    case DropReason::kNameTableFull:
      return "name_table_full";
    case DropReason::kUnmatchedEnd:
      return "unmatched_end";
    case DropReason::kStartAfterStop:
      return "start_after_stop";
    case DropReason::kProfilerReplaced:
      return "profiler_replaced";
    case DropReason::kNotCounted:
      return "not_counted";
    case DropReason::kDeviceDropped:
      return "device_dropped";
    case DropReason::kDeviceNoTime:
      return "device_no_time";
    case DropReason::kDeviceTooEarly:
      return "device_too_early";
    case DropReason::kMemoryLimit:
      return "memory_limit";
    case DropReason::kCount:
      break;
  }
  return {};
}

}  // namespace torchprof
