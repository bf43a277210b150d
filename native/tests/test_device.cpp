// What is recorded of a device, through the stand-in for libcupti.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "core/tree.h"
#include "device_fixtures.h"

using namespace torchprof;           // NOLINT(google-build-using-namespace)
using namespace torchprof::testing;  // NOLINT(google-build-using-namespace)

namespace {

// Each of which changed the length of some record.
constexpr std::array<std::uint32_t, 7> kVersions{18, 22, 26, 130'000, 130'100, 130'300, 130'400};

bool is_kind(const Recording& recording, std::size_t row, EventKind kind) {
  return recording.events.kind[row] == static_cast<std::uint8_t>(kind);
}

const Track& track_of(const Recording& recording, std::size_t row) {
  return recording.tracks[recording.events.track[row]];
}

}  // namespace

TEST_CASE("a kernel is linked to the call that launched it, and that lies in its op") {
  for (const std::uint32_t version : kVersions) {
    CAPTURE(version);
    DeviceCapture device(all_kinds(), version);
    FakeOp op;
    op.start(device.slot, "aten::mm");
    const std::uint32_t correlation = launch("_Z4gemmPfi", 20);
    launch("second");
    op.end(device.slot);
    const Recording recording = device.finish();

    CHECK(recording.problems.empty());
    CHECK(all_drops(device.capture) == 0);
    REQUIRE(recording.events.size() == 5);
    const std::size_t kernel = only_row(recording, "gemm(float*, int)");
    REQUIRE(kernel < recording.events.size());
    CHECK(is_kind(recording, kernel, EventKind::kKernel));
    CHECK(recording.events.correlation[kernel] == correlation);
    const Track& stream = track_of(recording, kernel);
    CHECK(stream.kind == TrackKind::kStream);
    CHECK(stream.name == "stream 20");
    CHECK(stream.thread_id == 20);
    CHECK(stream.device == 0);
    CHECK(stream.context == 1);
    CHECK(track_of(recording, only_row(recording, "second")).thread_id == 7);

    const std::size_t call = launcher_of(recording, kernel);
    REQUIRE(call < recording.events.size());
    CHECK(name_of(recording, call) == "cudaLaunchKernel");
    CHECK(is_kind(recording, call, EventKind::kRuntime));
    CHECK(recording.events.correlation[call] == correlation);
    const std::size_t parent = only_row(recording, "aten::mm");
    CHECK(build_tree(recording).parent[call] == static_cast<std::int64_t>(parent));

    const DeviceRecord* const of_call = device_record(recording, call);
    REQUIRE(of_call != nullptr);
    CHECK(of_call->callback_id == 211);
    const DeviceRecord* const record = device_record(recording, kernel);
    REQUIRE(record != nullptr);
    CHECK(record->external_id == of_call->external_id);
    CHECK(record->external_id > 0);
    CHECK(record->grid[0] == 264);
    CHECK(record->grid[1] == 2);
    CHECK(record->block[0] == 128);
    CHECK(record->registers == 32);
    CHECK(record->shared_bytes == 1536);
    CHECK(record->blocks_per_sm == 4.0F);
    CHECK(record->warps_per_sm == 16.0F);
    CHECK(record->graph_id == -1);
    CHECK(record->graph_node_id == -1);
    CHECK(record->device == 0);
    CHECK(record->stream == 20);
  }
}

TEST_CASE("copies, memsets, synchronizations and overheads have Kineto's names and their numbers") {
  for (const std::uint32_t version : kVersions) {
    CAPTURE(version);
    DeviceCapture device(all_kinds(), version);
    const std::uint64_t now = stand_in_now_ns();
    const std::uint32_t copy = stand_in_call(kCopyAsync, 0);
    stand_in_copy(copy, 4096, 0, now, now + 2'000);
    stand_in_copy(stand_in_call(kCopyAsync, 0), 8192, 1, now + 3'000, now + 4'000);
    stand_in_memset(stand_in_call(kLaunchKernel, 0), 512, now + 5'000, now + 6'000);
    stand_in_synchronize(stand_in_call(kLaunchKernel, 0), 4, now, now + 7'000);
    stand_in_overhead(6U << 16U, now, now + 100);
    stand_in_unknown();
    const Recording recording = device.finish();

    CHECK(recording.problems.empty());
    const std::size_t to_device = only_row(recording, "Memcpy HtoD (Pageable -> Device)");
    REQUIRE(to_device < recording.events.size());
    CHECK(device_record(recording, to_device)->size_bytes == 4096);
    CHECK(recording.events.end_ns[to_device] - recording.events.start_ns[to_device] >= 1'990);
    CHECK(recording.events.end_ns[to_device] - recording.events.start_ns[to_device] <= 2'010);
    CHECK(name_of(recording, launcher_of(recording, to_device)) == "cudaMemcpyAsync");
    const std::size_t peer = only_row(recording, "Memcpy PtoP (Device -> Device)");
    REQUIRE(peer < recording.events.size());
    CHECK(device_record(recording, peer)->size_bytes == 8192);
    CHECK(launcher_of(recording, peer) < recording.events.size());
    const std::size_t memset = only_row(recording, "Memset (Device)");
    REQUIRE(memset < recording.events.size());
    CHECK(device_record(recording, memset)->size_bytes == 512);
    const std::size_t sync = only_row(recording, "Context Sync");
    REQUIRE(sync < recording.events.size());
    CHECK(is_kind(recording, sync, EventKind::kSync));
    CHECK(device_record(recording, sync)->stream == -1);
    CHECK(device_record(recording, sync)->device == 0);  // of its context
    const std::size_t overhead = only_row(recording, "Command Buffer Full");
    REQUIRE(overhead < recording.events.size());
    CHECK(is_kind(recording, overhead, EventKind::kOverhead));
    CHECK(track_of(recording, overhead).kind == TrackKind::kThread);

    const DeviceCounts counts = device.capture.device_counts();
    CHECK(counts.copies == 2);
    CHECK(counts.memsets == 1);
    CHECK(counts.synchronizations == 1);
    CHECK(counts.overheads == 1);
    CHECK(counts.calls == 4);
    CHECK(counts.unknown_records == 1);
  }
}

TEST_CASE("calls that tell nothing are left out, and of the driver all but launches") {
  DeviceCapture device;
  stand_in_call(17, 0);  // cudaGetDevice
  stand_in_call(1, 1);   // cuInit
  const std::uint32_t correlation = stand_in_call(kDriverLaunchKernel, 1);
  const std::uint64_t now = stand_in_now_ns();
  stand_in_kernel("triton_poi", correlation, 0, 7, now, now + 10);
  const Recording recording = device.finish();
  REQUIRE(recording.events.size() == 2);
  const std::size_t kernel = only_row(recording, "triton_poi");
  const std::size_t call = launcher_of(recording, kernel);
  CHECK(name_of(recording, call) == "cuLaunchKernel");
  CHECK(is_kind(recording, call, EventKind::kDriver));
}

TEST_CASE("work whose call was not recorded is linked to the op that made the call") {
  DeviceOptions options = all_kinds();
  DeviceCapture device(options);
  FakeOp op;
  op.start(device.slot, "aten::odd");
  const std::uint32_t correlation = stand_in_call(kLaunchKernel, 0);
  // The same thread, a call whose record is lost: only the id that was pushed is known.
  const std::uint64_t now = stand_in_now_ns();
  stand_in_kernel("kernel", correlation, 0, 7, now, now + 10);
  op.end(device.slot);
  const Recording with_call = device.finish();
  CHECK(name_of(with_call, launcher_of(with_call, only_row(with_call, "kernel"))) == "cudaLaunchKernel");

  // Without the runtime's records CUPTI reports no external ids either; with only those of the driver it
  // does.
  options.kinds = {DeviceKind::kKernel, DeviceKind::kRuntime};
  options.correlate_ops = false;
  DeviceCapture uncorrelated(options);
  op.start(uncorrelated.slot, "aten::plain");
  launch("kernel");
  CHECK(stand_in_pushed() == 0);
  op.end(uncorrelated.slot);
  const Recording recording = uncorrelated.finish();
  const std::size_t call = launcher_of(recording, only_row(recording, "kernel"));
  REQUIRE(call < recording.events.size());
  CHECK(build_tree(recording).parent[call] == static_cast<std::int64_t>(only_row(recording, "aten::plain")));
  CHECK(device_record(recording, call)->external_id == -1);
}

TEST_CASE("several devices, streams and threads each have their track") {
  DeviceCapture device;
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < 4; ++i) {
    threads.emplace_back([&device, i] {
      for (int n = 0; n < 100; ++n) {
        FakeOp op;
        op.start(device.slot, "op");
        const std::uint32_t correlation = stand_in_call(kLaunchKernel, 0);
        const std::uint64_t now = stand_in_now_ns();
        stand_in_kernel("kernel", correlation, i % 2, i, now, now + 100);
        op.end(device.slot);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Recording recording = device.finish();
  CHECK(recording.problems.empty());
  CHECK(count_named(recording, "kernel") == 400);
  CHECK(recording.links.to.size() == 400);
  std::size_t streams = 0;
  std::size_t thread_tracks = 0;
  for (const Track& track : recording.tracks) {
    streams += track.kind == TrackKind::kStream ? 1 : 0;
    thread_tracks += track.kind == TrackKind::kThread ? 1 : 0;
  }
  CHECK(streams == 4);
  CHECK(thread_tracks == 4);
  // Every call lies in an op of its own thread.
  const Tree tree = build_tree(recording);
  for (std::size_t row = 0; row < recording.events.size(); ++row) {
    if (!is_kind(recording, row, EventKind::kRuntime)) continue;
    REQUIRE(tree.parent[row] >= 0);
    CHECK(name_of(recording, static_cast<std::size_t>(tree.parent[row])) == "op");
  }
}

TEST_CASE("nodes of a graph bear its ids; at graph level it is one piece of work") {
  DeviceCapture nodes;
  launch("node", 99);
  stand_in_graph(1, 3, stand_in_now_ns(), stand_in_now_ns());
  const Recording by_node = nodes.finish();
  const DeviceRecord* const node = device_record(by_node, only_row(by_node, "node"));
  REQUIRE(node != nullptr);
  CHECK(node->graph_id == 3);
  CHECK(node->graph_node_id == 7);
  CHECK(count_named(by_node, "CUDA graph") == 0);

  DeviceOptions options = all_kinds();
  options.graph_level = true;
  DeviceCapture graph(options);
  const std::uint64_t now = stand_in_now_ns();
  stand_in_graph(stand_in_call(kLaunchKernel, 0), 3, now, now + 50);
  const Recording by_graph = graph.finish();
  const std::size_t row = only_row(by_graph, "CUDA graph");
  REQUIRE(row < by_graph.events.size());
  CHECK(device_record(by_graph, row)->graph_id == 3);
  CHECK(launcher_of(by_graph, row) < by_graph.events.size());
}

TEST_CASE("ids are pushed while the device records, and what ends out of order leaves none behind") {
  DeviceCapture device;
  FakeOp outer;
  FakeOp inner;
  FakeOp elsewhere;
  outer.start(device.slot, "outer");
  inner.start(device.slot, "inner");
  CHECK(stand_in_pushed() == 2);
  outer.end(device.slot);  // with all that is above it
  CHECK(stand_in_pushed() == 0);
  inner.end(device.slot);
  CHECK(stand_in_pushed() == 0);

  outer.start(device.slot, "outer");
  elsewhere.start(device.slot, "elsewhere");
  std::thread([&] { elsewhere.end(device.slot); }).join();
  CHECK(stand_in_pushed() == 2);
  outer.end(device.slot);
  CHECK(stand_in_pushed() == 0);

  outer.start(device.slot, "outer");
  device.capture.stop_device();
  inner.start(device.slot, "after");
  CHECK(stand_in_pushed() == 1);
  inner.end(device.slot);
  outer.end(device.slot);
  CHECK(stand_in_pushed() == 0);
  device.capture.stop();
}

TEST_CASE("what is launched while the device is not recorded is left out, and what comes after is there") {
  DeviceCapture device;
  FakeOp op;
  op.start(device.slot, "op");
  launch("before");
  device.capture.record_device(false);
  device.capture.record_device(false);
  launch("meanwhile");
  device.capture.record_device(true);
  device.capture.record_device(true);
  launch("after");
  op.end(device.slot);
  const Recording recording = device.finish();
  CHECK(count_named(recording, "before") == 1);
  CHECK(count_named(recording, "meanwhile") == 0);
  CHECK(count_named(recording, "after") == 1);
  CHECK(count_named(recording, "cudaLaunchKernel") == 2);
  CHECK(all_drops(device.capture) == 0);
  const std::uint64_t enabled = stand_in_calls("cuptiActivityEnable");
  device.capture.record_device(true);  // there is nothing to switch any more
  CHECK(stand_in_calls("cuptiActivityEnable") == enabled);
}

TEST_CASE("a device that cannot be recorded again says so, and the capture goes on") {
  DeviceCapture device;
  launch("before");
  device.capture.record_device(false);
  stand_in_fail("cuptiActivityEnable", 35);
  CHECK_THROWS_AS(device.capture.record_device(true), DeviceRefused);
  record_op(device.slot, "op");
  const Recording recording = device.finish();
  CHECK(count_named(recording, "before") == 1);
  CHECK(count_named(recording, "op") == 1);
}

TEST_CASE("an op that CUPTI takes no id of is none that was pushed") {
  DeviceCapture device;
  stand_in_fail("cuptiActivityPushExternalCorrelationId", 15);
  FakeOp op;
  op.start(device.slot, "op");
  op.end(device.slot);
  CHECK(stand_in_calls("cuptiActivityPopExternalCorrelationId") == 0);
  CHECK(device.finish().events.size() == 1);
}

TEST_CASE("work without times, and of before the capture, is dropped and counted") {
  DeviceCapture device;
  const std::uint64_t now = stand_in_now_ns();
  stand_in_kernel("no start", 1, 0, 7, 0, now);
  stand_in_kernel("no end", 1, 0, 7, now, 0);
  stand_in_kernel("early", 1, 0, 7, now - 2'000'000'000, now - 1'000'000'000);
  stand_in_kernel("kept", 1, 0, 7, now, now + 1);
  stand_in_drop(5);
  const Recording recording = device.finish();
  CHECK(recording.events.size() == 1);
  CHECK(drops(device.capture, DropReason::kDeviceNoTime) == 2);
  CHECK(drops(device.capture, DropReason::kDeviceTooEarly) == 1);
  CHECK(drops(device.capture, DropReason::kDeviceDropped) == 5);
}

TEST_CASE("a full recording drops what the device reports, and says so") {
  stand_in_reset(kCupti13_0);
  Capture capture("", kMinCapBytes);
  start(capture);
  capture.start_device(collector(), all_kinds());
  for (int i = 0; i < 5'000; ++i) launch("kernel");
  capture.stop();
  CHECK(drops(capture, DropReason::kByteCap) > 0);
  const Recording recording = read(capture);
  CHECK(recording.problems.empty());
  CHECK(recording.events.size() + drops(capture, DropReason::kByteCap) == 10'000);
}
