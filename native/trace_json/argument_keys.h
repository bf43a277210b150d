// The arguments of trace events that have a place of their own in a recording.
#pragma once

#include <cstdint>
#include <string_view>

namespace torchprof {

enum class ArgumentKey : std::uint8_t {
  kOther,    // kept as it stands there
  kDropped,  // says nothing that the recording does not say, or does not hold outside the trace
  // Of any event.
  kExternalId,
  kOldExternalId,
  kCorrelation,
  kSequence,
  kForwardThread,
  kInputDims,
  kInputTypes,
  kInputStrides,
  kConcreteInputs,
  kOverloadName,
  kNameBytes,
  kFunction,  // what our own exporter would have called it, were it not the call of a module
  kFinished,
  kTraining,
  kPlacement,  // where our own exporter would have put it: steps and scopes that cross slices
  // Of calls to a device.
  kCbid,
  kCid,
  // Of work on a device, in the order of DeviceRecord.
  kStream,
  kBytes,
  kGraphId,
  kGraphNodeId,
  kWaitCorrelation,
  kWaitStream,
  kWaitEvent,
  kDevice,
  kContext,
  kGrid,
  kBlock,
  kRegisters,
  kSharedMemory,
  kBlocksPerSm,
  kWarpsPerSm,
  kOccupancy,
  kPriority,
  // Of "[memory]" instants.
  kMemoryBytes,
  kMemoryAddress,
  kMemoryDeviceType,
  kMemoryDevice,
  kMemoryAllocated,
  kMemoryReserved,
  kCount,
};

// By the text between the quotes.
[[nodiscard]] ArgumentKey argument_key(std::string_view name) noexcept;

}  // namespace torchprof
