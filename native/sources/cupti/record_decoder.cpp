#include "sources/cupti/record_decoder.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "sources/cupti/call_filter.h"
#include "sources/cupti/record_layout.h"
#include "sources/cupti/record_names.h"

namespace torchprof::cupti {
namespace {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i32 = std::int32_t;

// Spaces of keys of small names.
enum class NameSpace : u64 { kCopy, kMemset, kSynchronization, kOverhead, kGraph };

constexpr u64 name_key(NameSpace space, u32 value) noexcept {
  return (static_cast<u64>(space) << 32U) | value;
}

// A record is read after it was written: one from further ahead has no time that anybody knows.
constexpr u64 kMaxAheadNs = 1'000'000'000;

// CUPTI's 0 is for work that no graph launched.
template <typename Id>
std::int64_t graph_id_of(const std::byte* record, std::size_t offset) noexcept {
  const Id id = field<Id>(record, offset);
  return id == 0 ? -1 : static_cast<std::int64_t>(id);
}

}  // namespace

RecordDecoder::RecordDecoder(const Libraries& libraries, DeviceLog& log,
                             const DeviceClockPair& first) noexcept
    : libraries_(libraries), log_(log), first_(first) {
  DeviceWorkRecord& work = nothing_known_;
  work.correlation = work.size_bytes = work.graph_node_id = work.graph_id = -1;
  work.device = work.context = work.stream = work.wait_stream = work.wait_event = -1;
  work.registers = work.shared_bytes = -1;
}

DeviceWorkRecord& RecordDecoder::next_work(EventKind kind, Times times) noexcept {
  DeviceWorkRecord& work = log_.next_work();
  work = nothing_known_;
  work.kind = static_cast<u8>(kind);
  work.start_ticks = times.start_ticks;
  work.end_ticks = times.end_ticks;
  return work;
}

DeviceCallRecord& RecordDecoder::next_call(EventKind kind, Times times) noexcept {
  DeviceCallRecord& call = log_.next_call();
  call = {.start_ticks = times.start_ticks,
          .end_ticks = times.end_ticks,
          .correlation = -1,
          .thread = 0,
          .name = 0,
          .callback_id = -1,
          .kind = static_cast<u8>(kind),
          .flags = 0,
          .reserved = {}};
  return call;
}

void RecordDecoder::set_thread(DeviceCallRecord& call, u32 os_thread_id) {
  if (log_.is_own_thread(os_thread_id)) {
    call.flags = kOwnCall;
  } else {
    call.thread = ordinal_of(os_thread_id);
  }
}

void RecordDecoder::decode(u8* buffer, std::size_t valid_bytes, const DeviceClockLine& clock) {
  clock_ = clock;
  ++counts_.buffers;
  std::byte* record = nullptr;
  while (libraries_.cupti.get_next_record(buffer, valid_bytes, &record) == kSuccess && record != nullptr) {
    decode_record(record);
  }
}

void RecordDecoder::decode_record(const std::byte* record) {
  switch (field<ActivityKind>(record, kKind)) {
    case ActivityKind::kConcurrentKernel:
      return add_kernel(record);
    case ActivityKind::kRuntime:
      return add_call(record, EventKind::kRuntime);
    case ActivityKind::kDriver:
      return add_call(record, EventKind::kDriver);
    case ActivityKind::kExternalCorrelation:
      return add_external_id(record);
    case ActivityKind::kMemcpy:
      return add_copy(record, memcpy_record::kCorrelation, memcpy_record::kGraphNode, memcpy_record::kGraph);
    case ActivityKind::kMemcpy2:
      return add_copy(record, peer_copy::kCorrelation, peer_copy::kGraphNode, peer_copy::kGraph);
    case ActivityKind::kMemset:
      return add_memset(record);
    case ActivityKind::kSynchronization:
      return add_synchronization(record);
    case ActivityKind::kGraphTrace:
      return add_graph(record);
    case ActivityKind::kOverhead:
      return add_overhead(record);
  }
  ++counts_.unknown_records;
}

RecordDecoder::Times RecordDecoder::times_of(const std::byte* record, std::size_t start,
                                             std::size_t end) noexcept {
  const auto start_ns = field<u64>(record, start);
  const auto end_ns = field<u64>(record, end);
  if (start_ns == 0 || end_ns < start_ns) {
    log_.count_drops(DropReason::kDeviceNoTime, 1);
    return {};
  }
  if (end_ns > static_cast<u64>(clock_.latest().device_ns) + kMaxAheadNs) {
    log_.count_drops(DropReason::kDeviceNoTime, 1);
    return {};
  }
  if (end_ns < static_cast<u64>(first_.device_ns)) {
    log_.count_drops(DropReason::kDeviceTooEarly, 1);
    return {};
  }
  const u64 start_ticks = clock_.to_ticks(start_ns);
  return {.start_ticks = start_ticks, .end_ticks = std::max(start_ticks, clock_.to_ticks(end_ns))};
}

void RecordDecoder::add_kernel(const std::byte* record) {
  const Times times = times_of(record, kernel::kStart, kernel::kEnd);
  if (!times.are_known()) {
    return;
  }
  DeviceWorkRecord& work = next_work(EventKind::kKernel, times);
  const auto device = field<u32>(record, kernel::kDevice);
  work.correlation = correlations_.widen(field<u32>(record, kernel::kCorrelation));
  work.graph_node_id = graph_id_of<u64>(record, kernel::kGraphNode);
  work.graph_id = graph_id_of<u32>(record, kernel::kGraph);
  work.name = kernel_name_id(field<const char*>(record, kernel::kName));
  work.device = static_cast<i32>(device);
  work.context = field<i32>(record, kernel::kContext);
  work.stream = field<i32>(record, kernel::kStream);
  std::memcpy(&work.grid, record + kernel::kGrid, sizeof(work.grid));
  for (std::size_t axis = 0; axis < std::size(work.block); ++axis) {
    work.block[axis] = static_cast<u16>(field<i32>(record, kernel::kBlock + (axis * sizeof(i32))));
  }
  work.multiprocessors = multiprocessors_of(device);
  work.registers = field<u16>(record, kernel::kRegisters);
  work.shared_bytes = field<i32>(record, kernel::kStaticShared) + field<i32>(record, kernel::kDynamicShared);
  log_.add(work);
  ++counts_.kernels;
}

void RecordDecoder::add_copy(const std::byte* record, std::size_t correlation, std::size_t graph_node,
                             std::size_t graph) {
  const Times times = times_of(record, memcpy_record::kStart, memcpy_record::kEnd);
  if (!times.are_known()) {
    return;
  }
  DeviceWorkRecord& work = next_work(EventKind::kMemcpy, times);
  const auto kind = field<u8>(record, memcpy_record::kCopyKind);
  const auto source = field<u8>(record, memcpy_record::kSource);
  const auto destination = field<u8>(record, memcpy_record::kDestination);
  const u32 key = (u32{kind} << 16U) | (u32{source} << 8U) | destination;
  work.name =
      small_name_id(name_key(NameSpace::kCopy, key), [&] { return copy_name(kind, source, destination); });
  work.correlation = correlations_.widen(field<u32>(record, correlation));
  work.size_bytes = field<std::int64_t>(record, memcpy_record::kBytes);
  work.graph_node_id = graph_id_of<u64>(record, graph_node);
  work.graph_id = graph_id_of<u32>(record, graph);
  work.device = field<i32>(record, memcpy_record::kDevice);
  work.context = field<i32>(record, memcpy_record::kContext);
  work.stream = field<i32>(record, memcpy_record::kStream);
  log_.add(work);
  ++counts_.copies;
}

void RecordDecoder::add_memset(const std::byte* record) {
  const Times times = times_of(record, memset_record::kStart, memset_record::kEnd);
  if (!times.are_known()) {
    return;
  }
  DeviceWorkRecord& work = next_work(EventKind::kMemset, times);
  const auto memory_kind = field<u16>(record, memset_record::kMemoryKind);
  work.name =
      small_name_id(name_key(NameSpace::kMemset, memory_kind), [&] { return memset_name(memory_kind); });
  work.correlation = correlations_.widen(field<u32>(record, memset_record::kCorrelation));
  work.size_bytes = field<std::int64_t>(record, memset_record::kBytes);
  work.graph_node_id = graph_id_of<u64>(record, memset_record::kGraphNode);
  work.graph_id = graph_id_of<u32>(record, memset_record::kGraph);
  work.device = field<i32>(record, memset_record::kDevice);
  work.context = field<i32>(record, memset_record::kContext);
  work.stream = field<i32>(record, memset_record::kStream);
  log_.add(work);
  ++counts_.memsets;
}

// A whole graph, where its nodes are not asked for.
void RecordDecoder::add_graph(const std::byte* record) {
  const Times times = times_of(record, graph_trace::kStart, graph_trace::kEnd);
  if (!times.are_known()) {
    return;
  }
  DeviceWorkRecord& work = next_work(EventKind::kKernel, times);
  work.name = small_name_id(name_key(NameSpace::kGraph, 0), [] { return std::string("CUDA graph"); });
  work.correlation = correlations_.widen(field<u32>(record, graph_trace::kCorrelation));
  work.graph_id = graph_id_of<u32>(record, graph_trace::kGraph);
  work.device = field<i32>(record, graph_trace::kDevice);
  work.context = field<i32>(record, graph_trace::kContext);
  work.stream = field<i32>(record, graph_trace::kStream);
  log_.add(work);
  ++counts_.kernels;
}

void RecordDecoder::add_synchronization(const std::byte* record) {
  const Times times = times_of(record, synchronization::kStart, synchronization::kEnd);
  if (!times.are_known()) {
    return;
  }
  DeviceWorkRecord& work = next_work(EventKind::kSync, times);
  const auto type = field<u32>(record, synchronization::kType);
  work.name = small_name_id(name_key(NameSpace::kSynchronization, type),
                            [&] { return std::string(synchronization_name(type)); });
  work.correlation = correlations_.widen(field<u32>(record, synchronization::kCorrelation));
  work.context = field<i32>(record, synchronization::kContext);
  // All bits set where no stream or event was waited for.
  work.stream = field<i32>(record, synchronization::kStream);
  work.wait_event = field<i32>(record, synchronization::kEvent);
  log_.add(work);
  ++counts_.synchronizations;
}

void RecordDecoder::add_call(const std::byte* record, EventKind kind) {
  const auto callback_id = field<u32>(record, api::kCallback);
  const bool is_runtime = kind == EventKind::kRuntime;
  if (is_runtime ? is_noise(callback_id) : !is_driver_launch(callback_id)) {
    return;
  }
  const Times times = times_of(record, api::kStart, api::kEnd);
  if (!times.are_known()) {
    return;
  }
  DeviceCallRecord& call = next_call(kind, times);
  call.correlation = correlations_.widen(field<u32>(record, api::kCorrelation));
  set_thread(call, field<u32>(record, api::kThread));
  call.name = call_name_id(is_runtime ? kRuntimeDomain : kDriverDomain, callback_id);
  call.callback_id = static_cast<i32>(callback_id);
  log_.add(call);
  ++counts_.calls;
}

void RecordDecoder::add_overhead(const std::byte* record) {
  // That of a whole process or device is on no thread.
  if (field<u32>(record, overhead::kObjectKind) != kObjectThread) {
    return;
  }
  const Times times = times_of(record, overhead::kStart, overhead::kEnd);
  if (!times.are_known()) {
    return;
  }
  const auto kind = field<u32>(record, overhead::kOverheadKind);
  DeviceCallRecord& call = next_call(EventKind::kOverhead, times);
  set_thread(call, field<u32>(record, overhead::kThread));
  call.name =
      small_name_id(name_key(NameSpace::kOverhead, kind), [&] { return std::string(overhead_name(kind)); });
  log_.add(call);
  ++counts_.overheads;
}

void RecordDecoder::add_external_id(const std::byte* record) {
  if (field<u32>(record, external_correlation::kExternalKind) == kExternalKindOfOps) {
    log_.add_op(correlations_.widen(field<u32>(record, external_correlation::kCorrelation)),
                field<u64>(record, external_correlation::kExternalId));
  }
}

std::uint32_t RecordDecoder::kernel_name_id(const char* name) {
  constexpr u64 kOdd = 0x9E3779B97F4A7C15;
  KernelAddress& address =
      kernel_addresses_[(reinterpret_cast<std::uintptr_t>(name) * kOdd) >> (64U - kKernelAddressBits)];
  if (address.name != name || address.buffer != counts_.buffers) {
    address = {.name = name, .buffer = counts_.buffers, .id = checked_kernel_name_id(name)};
  }
  return address.id;
}

std::uint32_t RecordDecoder::checked_kernel_name_id(const char* name) {
  const auto known = kernel_names_.find(name);
  if (known != kernel_names_.end() && (name == nullptr || known->second.mangled == name)) {
    return known->second.id;
  }
  const u32 id = log_.intern(kernel_name(name));
  kernel_names_[name] = {.mangled = name != nullptr ? name : "", .id = id};
  return id;
}

std::uint32_t RecordDecoder::call_name_id(u32 domain, u32 callback_id) {
  constexpr u32 kMaxCallbacks = 4096;  // there are about a thousand
  std::vector<u32>& names = call_names_[domain == kDriverDomain ? 1 : 0];
  const u32 index = std::min(callback_id, kMaxCallbacks);
  if (names.size() <= index) {
    names.resize(index + 1);
  }
  if (names[index] == 0) {
    names[index] = log_.intern(call_name(libraries_.cupti, domain, callback_id));
  }
  return names[index];
}

template <typename Make>
std::uint32_t RecordDecoder::small_name_id(u64 key, Make make) {
  const auto known = names_.find(key);
  if (known != names_.end()) {
    return known->second;
  }
  return names_.emplace(key, log_.intern(make())).first->second;
}

std::uint16_t RecordDecoder::multiprocessors_of(u32 device) {
  constexpr u32 kMaxDevices = 256;
  if (device >= kMaxDevices) {
    return 0;
  }
  if (multiprocessors_.size() <= device) {
    multiprocessors_.resize(device + 1, -1);
  }
  if (multiprocessors_[device] < 0) {
    constexpr int kMultiprocessorCount = 16;  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
    int handle = 0;
    int count = 0;
    const bool is_known = libraries_.cuda.get_device(&handle, static_cast<int>(device)) == 0 &&
                          libraries_.cuda.get_device_attribute(&count, kMultiprocessorCount, handle) == 0;
    multiprocessors_[device] = is_known ? std::clamp(count, 0, int{std::numeric_limits<u16>::max()}) : 0;
  }
  return static_cast<u16>(multiprocessors_[device]);
}

std::uint32_t RecordDecoder::ordinal_of(u32 os_thread_id) {
  if (os_thread_id != last_thread_) {
    last_ordinal_ = log_.ordinal_of(os_thread_id);
    last_thread_ = os_thread_id;
  }
  return last_ordinal_;
}

}  // namespace torchprof::cupti
