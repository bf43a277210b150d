// The decoder against NVIDIA's own libcupti, which answers without a driver: it walks over buffers that are
// filled here with its own structures, and knows the names of calls. What it does on a device no test here
// can say.
#include <doctest/doctest.h>

#if defined(TORCHPROF_CUPTI_LIBRARY) && __has_include(<cupti_activity.h>) && __has_include(<cuda.h>)
#include <cupti_activity.h>
#include <cupti_version.h>
#endif

// Libraries from CUDA 13.2 on crash without a driver; their records have other structures.
#if defined(CUPTI_API_VERSION) && CUPTI_API_VERSION >= 130000 && CUPTI_API_VERSION < 130100
#include <dlfcn.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "core/capture.h"
#include "core/device_log.h"
#include "core/reader.h"
#include "sources/cupti/call_filter.h"
#include "sources/cupti/record_decoder.h"
#include "sources/cupti/record_names.h"

using namespace torchprof;         // NOLINT(google-build-using-namespace)
using namespace torchprof::cupti;  // NOLINT(google-build-using-namespace)

namespace {

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  const bool is_there = function != nullptr;
  REQUIRE(is_there);
}

// NVIDIA's functions, and a driver that knows one device.
const Libraries& oracle() {
  static const Libraries libraries = [] {
    void* const library = ::dlopen(TORCHPROF_CUPTI_LIBRARY, RTLD_NOW);
    REQUIRE(library != nullptr);
    Libraries found;
    find(library, "cuptiGetVersion", found.cupti.get_version);
    find(library, "cuptiGetCallbackName", found.cupti.get_callback_name);
    find(library, "cuptiGetResultString", found.cupti.get_result_string);
    find(library, "cuptiActivityGetNextRecord", found.cupti.get_next_record);
    found.cuda.get_device = [](int* device, int ordinal) noexcept {
      *device = ordinal;
      return 0;
    };
    found.cuda.get_device_attribute = [](int* value, int, int) noexcept {
      *value = 100;
      return 0;
    };
    return found;
  }();
  return libraries;
}

class Buffer {
 public:
  template <typename Record>
  void add(const Record& record) {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&record);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(record));
  }
  [[nodiscard]] std::uint8_t* data() { return bytes_.data(); }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }

 private:
  std::vector<std::uint8_t> bytes_;
};

constexpr std::uint64_t kStart = 1'700'000'000'000'000'000;

template <typename Record>
Record record_of(CUpti_ActivityKind kind) {
  Record record;
  std::memset(&record, 0, sizeof(record));
  record.kind = kind;
  return record;
}

template <typename Record>
Record work_of(CUpti_ActivityKind kind, std::uint32_t correlation) {
  Record record = record_of<Record>(kind);
  record.start = kStart + correlation;
  record.end = kStart + correlation + 500;
  record.deviceId = 3;
  record.contextId = 4;
  record.streamId = 5;
  record.correlationId = correlation;
  record.graphId = 6;
  record.graphNodeId = 77;
  return record;
}

// One record of every kind there is in the decoder.
Buffer every_kind() {
  Buffer buffer;
  auto external = record_of<CUpti_ActivityExternalCorrelation>(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
  external.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2;
  external.externalId = 1;
  external.correlationId = 10;
  buffer.add(external);
  for (const CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER}) {
    auto call = record_of<CUpti_ActivityAPI>(kind);
    call.cbid = kind == CUPTI_ACTIVITY_KIND_RUNTIME ? 211 : 307;
    call.start = kStart;
    call.end = kStart + 100;
    call.processId = 1;
    call.threadId = 1234;
    call.correlationId = kind == CUPTI_ACTIVITY_KIND_RUNTIME ? 10 : 11;
    buffer.add(call);
  }
  auto kernel = work_of<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 10);
  kernel.name = "_ZN2at6native6kernelEi";
  kernel.registersPerThread = 40;
  kernel.gridX = 200;
  kernel.gridY = 2;
  kernel.gridZ = 1;
  kernel.blockX = 64;
  kernel.blockY = 2;
  kernel.blockZ = 1;
  kernel.staticSharedMemory = 100;
  kernel.dynamicSharedMemory = 28;
  buffer.add(kernel);
  auto copy = work_of<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY, 12);
  copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
  copy.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  copy.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
  copy.bytes = 1000;
  buffer.add(copy);
  auto peer = work_of<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2, 13);
  peer.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  peer.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  peer.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  peer.bytes = 2000;
  buffer.add(peer);
  auto memset = work_of<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET, 14);
  memset.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  memset.bytes = 3000;
  buffer.add(memset);
  auto sync = record_of<CUpti_ActivitySynchronization2>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  sync.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE;
  sync.start = kStart;
  sync.end = kStart + 50;
  sync.contextId = 4;
  sync.streamId = 5;
  sync.cudaEventId = 9;
  sync.correlationId = 15;
  buffer.add(sync);
  auto overhead = record_of<CUpti_ActivityOverhead3>(CUPTI_ACTIVITY_KIND_OVERHEAD);
  overhead.overheadKind = CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING;
  overhead.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  overhead.objectId.pt.threadId = 1234;
  overhead.start = kStart;
  overhead.end = kStart + 60;
  buffer.add(overhead);
  auto graph = record_of<CUpti_ActivityGraphTrace2>(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  graph.correlationId = 16;
  graph.start = kStart;
  graph.end = kStart + 70;
  graph.deviceId = 3;
  graph.contextId = 4;
  graph.streamId = 5;
  graph.graphId = 8;
  buffer.add(graph);
  return buffer;
}

std::size_t row_named(const Recording& recording, std::string_view name) {
  std::size_t row = 0;
  while (row < recording.events.size() && recording.strings.name(recording.events.name[row]) != name) ++row;
  REQUIRE(row < recording.events.size());
  return row;
}

const DeviceRecord& device_of(const Recording& recording, std::size_t row) {
  for (const DeviceRecord& record : recording.devices) {
    if (record.event == row) return record;
  }
  FAIL("no device record");
  return recording.devices.front();
}

}  // namespace

TEST_CASE("NVIDIA's libcupti answers without a driver") {
  std::uint32_t version = 0;
  REQUIRE(oracle().cupti.get_version(&version) == kSuccess);
  CHECK(version >= 130'000);
  CHECK(version < 130'100);
}

TEST_CASE("the calls that are left out, and the launches, are what libcupti calls so") {
  std::string noise;
  for (const std::uint32_t call : kNoisyRuntimeCalls) {
    noise.append(call_name(oracle().cupti, kRuntimeDomain, call)).append(" ");
  }
  CHECK(noise ==
        "cudaGetLastError cudaPeekAtLastError cudaSetDevice cudaGetDevice cudaEventCreate "
        "cudaEventCreateWithFlags "
        "cudaEventDestroy cudaDeviceGetAttribute cudaStreamIsCapturing cudaStreamIsCapturing_ptsz "
        "cudaStreamGetCaptureInfo cudaStreamGetCaptureInfo_ptsz cudaThreadExchangeStreamCaptureMode "
        "cudaStreamGetCaptureInfo_v2 cudaStreamGetCaptureInfo_v2_ptsz cudaStreamGetCaptureInfo "
        "cudaStreamGetCaptureInfo_ptsz "
        "__cudaPushCallConfiguration __cudaPopCallConfiguration ");
  std::string launches;
  for (const std::uint32_t call : kDriverLaunches) {
    launches.append(call_name(oracle().cupti, kDriverDomain, call)).append(" ");
  }
  CHECK(launches ==
        "cuLaunchKernel cuLaunchKernel_ptsz cuLaunchCooperativeKernel cuLaunchCooperativeKernel_ptsz "
        "cuLaunchCooperativeKernelMultiDevice cuGraphLaunch cuGraphLaunch_ptsz cuLaunchKernelEx "
        "cuLaunchKernelEx_ptsz ");
  CHECK(call_name(oracle().cupti, kRuntimeDomain, 211) == "cudaLaunchKernel");
  CHECK(call_name(oracle().cupti, kRuntimeDomain, 430) == "cudaLaunchKernelExC");
  CHECK(call_name(oracle().cupti, kRuntimeDomain, 99'999) == "runtime call 99999");
}

TEST_CASE("libcupti walks over records of every kind, and the decoder finds their fields") {
  Capture capture("", 4U << 20U);
  const int slot = capture.start();
  REQUIRE(slot >= 0);
  Buffer buffer = every_kind();
  // The log writes into a recording of its own: a capture hands none out.
  ActiveRecording recording_being_made("", 4U << 20U);
  DeviceLog log(recording_being_made, static_cast<std::uint32_t>(slot));
  const DeviceClockPair clock{.device_ns = kStart,
                              .ticks = recording_being_made.arena().header().clock_start.ticks};
  RecordDecoder decoder(oracle(), log, {.device_ns = 0, .ticks = 1});
  decoder.decode(buffer.data(), buffer.size(), DeviceClockLine(clock, clock, 1.0));
  log.close();
  recording_being_made.finish();
  capture.stop();
  const Recording recording = read_recording(recording_being_made.arena().bytes(), nullptr);

  const DeviceCounts& counts = decoder.counts();
  CHECK(counts.kernels == 2);
  CHECK(counts.copies == 2);
  CHECK(counts.memsets == 1);
  CHECK(counts.calls == 2);
  CHECK(counts.synchronizations == 1);
  CHECK(counts.overheads == 1);
  CHECK(counts.unknown_records == 0);
  CHECK(recording.problems.empty());
  REQUIRE(recording.events.size() == 9);

  const std::size_t kernel = row_named(recording, "at::native::kernel(int)");
  CHECK(recording.events.correlation[kernel] == 10);
  CHECK(recording.tracks[recording.events.track[kernel]].device == 3);
  CHECK(recording.tracks[recording.events.track[kernel]].context == 4);
  CHECK(recording.tracks[recording.events.track[kernel]].thread_id == 5);
  const DeviceRecord& of_kernel = device_of(recording, kernel);
  CHECK(of_kernel.registers == 40);
  CHECK(of_kernel.shared_bytes == 128);
  CHECK(of_kernel.grid[0] == 200);
  CHECK(of_kernel.block[1] == 2);
  CHECK(of_kernel.blocks_per_sm == 4.0F);
  CHECK(of_kernel.warps_per_sm == 16.0F);
  CHECK(of_kernel.graph_id == 6);
  CHECK(of_kernel.graph_node_id == 77);
  const std::size_t call = row_named(recording, "cudaLaunchKernel");
  REQUIRE(recording.links.from.size() == 1);
  CHECK(recording.links.from[0] == call);
  CHECK(recording.links.to[0] == kernel);
  CHECK(recording.events.correlation[row_named(recording, "cuLaunchKernel")] == 11);

  const std::size_t copy = row_named(recording, "Memcpy DtoH (Device -> Pinned)");
  CHECK(recording.events.correlation[copy] == 12);
  CHECK(device_of(recording, copy).size_bytes == 1000);
  CHECK(device_of(recording, copy).graph_id == 6);
  CHECK(device_of(recording, copy).graph_node_id == 77);
  const std::size_t peer = row_named(recording, "Memcpy PtoP (Device -> Device)");
  CHECK(recording.events.correlation[peer] == 13);
  CHECK(device_of(recording, peer).size_bytes == 2000);
  CHECK(device_of(recording, peer).graph_id == 6);
  CHECK(device_of(recording, peer).graph_node_id == 77);
  const std::size_t memset = row_named(recording, "Memset (Device)");
  CHECK(recording.events.correlation[memset] == 14);
  CHECK(device_of(recording, memset).size_bytes == 3000);
  CHECK(device_of(recording, memset).graph_node_id == 77);
  const std::size_t sync = row_named(recording, "Stream Sync");
  CHECK(recording.events.correlation[sync] == 15);
  CHECK(device_of(recording, sync).wait_event == 9);
  CHECK(device_of(recording, sync).device == 3);
  const std::size_t graph = row_named(recording, "CUDA graph");
  CHECK(recording.events.correlation[graph] == 16);
  CHECK(device_of(recording, graph).graph_id == 8);
  static_cast<void>(row_named(recording, "Lazy Function Loading"));
}
#endif
