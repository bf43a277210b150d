#include "trace_json/argument_keys.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace torchprof {
namespace {

using enum ArgumentKey;

struct Name {
  std::string_view text;
  ArgumentKey key;
};

constexpr std::size_t kMaxNameBytes = 40;

// By length, so that few have to be compared.
constexpr auto kNames = [] {
  std::array names = {
      Name{"External id", kExternalId},
      Name{"external id", kOldExternalId},
      Name{"correlation", kCorrelation},
      Name{"Sequence number", kSequence},
      Name{"Fwd thread id", kForwardThread},
      Name{"Input Dims", kInputDims},
      Name{"Input type", kInputTypes},
      Name{"Input Strides", kInputStrides},
      Name{"Concrete Inputs", kConcreteInputs},
      Name{"Overload name", kOverloadName},
      Name{"Name bytes", kNameBytes},
      Name{"Python function", kFunction},
      Name{"finished", kFinished},
      Name{"Training", kTraining},
      Name{"Step phase", kPlacement},
      Name{"Step partial", kPlacement},
      Name{"On thread", kPlacement},
      Name{"Synchronous", kPlacement},
      Name{"cbid", kCbid},
      Name{"cid", kCid},
      Name{"stream", kStream},
      Name{"bytes", kBytes},
      Name{"graph id", kGraphId},
      Name{"graph node id", kGraphNodeId},
      Name{"wait_on_cuda_event_record_corr_id", kWaitCorrelation},
      Name{"wait_on_stream", kWaitStream},
      Name{"wait_on_cuda_event_id", kWaitEvent},
      Name{"device", kDevice},
      Name{"context", kContext},
      Name{"grid", kGrid},
      Name{"block", kBlock},
      Name{"registers per thread", kRegisters},
      Name{"shared memory", kSharedMemory},
      Name{"blocks per SM", kBlocksPerSm},
      Name{"warps per SM", kWarpsPerSm},
      Name{"est. achieved occupancy %", kOccupancy},
      Name{"priority", kPriority},
      Name{"Bytes", kMemoryBytes},
      Name{"Addr", kMemoryAddress},
      Name{"Device Type", kMemoryDeviceType},
      Name{"Device Id", kMemoryDevice},
      Name{"Total Allocated", kMemoryAllocated},
      Name{"Total Reserved", kMemoryReserved},
      // Numbers of the trace's own, which it has anew wherever it is written.
      Name{"Ev Idx", kDropped},
      Name{"Record function id", kDropped},
      Name{"Python id", kDropped},
      Name{"Python parent id", kDropped},
      Name{"Python module id", kDropped},
      // The name, the size by the duration, the start and thread of the op around it; 0 since ever.
      Name{"cuda_sync_kind", kDropped},
      Name{"memory bandwidth (GB/s)", kDropped},
      Name{"external ts", kDropped},
      Name{"Device", kDropped},
      Name{"queued", kDropped},
      // The same for all events of 2021's traces.
      Name{"Trace name", kDropped},
      Name{"Trace iteration", kDropped},
  };
  std::ranges::sort(names, {}, [](const Name& name) { return name.text.size(); });
  return names;
}();

// Where the names of each length begin.
constexpr auto kFirstOfLength = [] {
  std::array<std::uint8_t, kMaxNameBytes + 2> first{};
  for (std::size_t length = 0; length < first.size(); ++length) {
    std::size_t place = 0;
    while (place < kNames.size() && kNames[place].text.size() < length) ++place;
    first[length] = static_cast<std::uint8_t>(place);
  }
  return first;
}();

}  // namespace

ArgumentKey argument_key(std::string_view name) noexcept {
  if (name.size() > kMaxNameBytes) return kOther;
  for (std::size_t place = kFirstOfLength[name.size()]; place < kFirstOfLength[name.size() + 1]; ++place) {
    if (kNames[place].text == name) return kNames[place].key;
  }
  return kOther;
}

}  // namespace torchprof
