// A device that refuses, comes late, hangs, is full, forks: through the stand-in for libcupti.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "core/thread_state.h"
#include "device_fixtures.h"
#include "sources/cupti/buffer_pool.h"
#include "sources/cupti/cupti_refusal.h"

using namespace torchprof;           // NOLINT(google-build-using-namespace)
using namespace torchprof::testing;  // NOLINT(google-build-using-namespace)

namespace {

// Why the device of a capture does not start.
std::string refusal_of(Capture& capture, const DeviceOptions& options = all_kinds()) {
  try {
    capture.start_device(collector(), options);
  } catch (const DeviceRefused& refused) {
    return refused.what();
  }
  return "";
}

bool holds(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("what CUPTI refuses is named, and the capture goes on") {
  const std::vector<const char*> steps{"cuptiGetVersion", "cuptiSubscribe", "cuptiGetTimestamp",
                                       "cuptiActivityRegisterCallbacks", "cuptiActivityEnable"};
  for (const char* step : steps) {
    for (const int error : {14, 15, 26, 35, 39, 999}) {
      CAPTURE(step);
      CAPTURE(error);
      stand_in_reset(kCupti13_0);
      stand_in_fail(step, error);
      Capture capture("", kSmallCapBytes);
      const std::uint32_t slot = start(capture);
      const std::string text = refusal_of(capture);
      CHECK(holds(text, "CUPTI refused "));
      CHECK(holds(text, std::string("(").append(std::to_string(error)).append(")")));
      CHECK(holds(text, "; "));
      record_op(slot, "op");
      stand_in_fail(step, 0);
      // Nothing was left behind: it can be tried again.
      CHECK(refusal_of(capture).empty());
      launch("kernel");
      capture.stop();
      CHECK(count_named(read(capture), "kernel") == 1);
      CHECK(count_named(read(capture), "op") == 1);
    }
  }
}

TEST_CASE("another subscriber is named as far as it can be told") {
  stand_in_reset(kCupti13_0);
  stand_in_fail("cuptiSubscribe", 39);
  Capture capture("", kSmallCapBytes);
  start(capture);
  CHECK(holds(refusal_of(capture), "MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (39), held by "));
  CHECK_FALSE(collector().probe({}, true).subscriber.empty());
  CHECK(collector().probe({}, false).subscriber.empty());
  stand_in_fail("cuptiSubscribe", 0);
  CHECK(collector().probe({}, true).subscriber.empty());
  CHECK(stand_in_calls("cuptiUnsubscribe") == 1);

  using cupti::subscription_holder;
  CHECK(subscription_holder({"/opt/nsys/libToolsInjection64.so"}, "") == "Nsight Systems");
  CHECK(subscription_holder({}, "/opt/ncu/libcuda-injection.so") == "Nsight Compute");
  CHECK(holds(subscription_holder({"/venv/torch/lib/libtorch_cuda.so"}, ""), "torch.profiler"));
  CHECK(subscription_holder({}, "/opt/mine.so") == "/opt/mine.so");
  // torch is there in any case; what was injected is there for this.
  CHECK(subscription_holder({"/venv/torch/lib/libtorch_cuda.so"}, "/opt/mine.so") == "/opt/mine.so");
  CHECK(subscription_holder({"libc.so.6"}, "") == "another profiler");
}

TEST_CASE("a probe says what is there") {
  stand_in_reset(130'001);
  const DeviceProbe probe = collector().probe({}, false);
  CHECK(probe.reason.empty());
  CHECK(probe.interface_version == 130'001);
  CHECK(probe.driver_version == 13'000);
  CHECK(probe.devices == 2);
  CHECK(holds(probe.library, "libcupti.so.13"));
  stand_in_reset(17);
  CHECK(holds(collector().probe({}, false).reason, "older than CUDA 12.0"));
}

TEST_CASE("a probe says what the devices are, as far as the driver tells") {
  stand_in_reset(kCupti13_0);
  const DeviceProbe probe = collector().probe({}, false);
  REQUIRE(probe.properties.size() == 2);
  const DeviceProperties& first = probe.properties[0];
  CHECK(first.name == "stand-in 0");
  CHECK(first.memory_bytes == 150'754'820'096);
  CHECK(first.compute_major == 9);
  CHECK(first.compute_minor == 0);
  CHECK(first.multiprocessors == 132);
  CHECK(first.max_threads_per_multiprocessor == 2048);
  CHECK(first.max_blocks_per_multiprocessor == 32);
  CHECK(first.max_shared_bytes_per_block == 232'448);
  const DeviceProperties& second = probe.properties[1];
  CHECK(second.name == "stand-in 1");
  CHECK(second.memory_bytes == -1);
  CHECK(second.multiprocessors == -1);
}

TEST_CASE("a driver that does not start, or is older than libcupti, is named") {
  struct Fault {
    const char* variable;
    const char* value;
    int devices;
    const char* text;
  };
  const std::vector<Fault> faults{
      {"STAND_IN_CUDA_INIT", "100", 0, "does not start: CUDA_ERROR_NO_DEVICE (100); "},
      {"STAND_IN_CUDA_INIT", "999", -1, "does not start: an error it does not name (999); "},
      {"STAND_IN_CUDA_DRIVER", "12080", 2, "the driver is for CUDA 12, older than "}};
  for (const Fault& fault : faults) {
    CAPTURE(fault.value);
    stand_in_reset(kCupti13_0);
    ::setenv(fault.variable, fault.value, 1);
    const DeviceProbe probe = collector().probe({}, true);
    CHECK(holds(probe.reason, fault.text));
    CHECK(probe.devices == fault.devices);
    Capture capture("", kSmallCapBytes);
    start(capture);
    CHECK(holds(refusal_of(capture), fault.text));
    ::unsetenv(fault.variable);
    CHECK(refusal_of(capture).empty());
  }
  stand_in_reset(26);  // of CUDA 12.8
  ::setenv("STAND_IN_CUDA_DRIVER", "12020", 1);
  CHECK(collector().probe({}, true).reason.empty());
  ::unsetenv("STAND_IN_CUDA_DRIVER");
}

TEST_CASE("a device records into one capture at a time, and into a capture once") {
  DeviceCapture device;
  Capture second("", kSmallCapBytes);
  CHECK(holds(refusal_of(second), "does not record"));
  start(second);
  CHECK(holds(refusal_of(second), "another capture records the device"));
  CHECK(holds(refusal_of(device.capture), "once"));
  CHECK(collector().probe({}, true).subscriber.empty());  // that is us: not asked
  device.capture.stop_device();
  device.capture.stop_device();
  CHECK(holds(refusal_of(device.capture), "once"));
  CHECK(refusal_of(second).empty());
  launch("kernel");
  second.stop();
  device.capture.stop();
  CHECK(count_named(read(second), "kernel") == 1);
  CHECK(device.capture.recorded() == 0);
}

TEST_CASE("captures follow each other, with calls of the process as they were") {
  for (int i = 0; i < 20; ++i) {
    DeviceCapture device;
    launch("kernel");
    const Recording recording = device.finish();
    CHECK(count_named(recording, "kernel") == 1);
    CHECK(stand_in_calls("cuptiSubscribe") == stand_in_calls("cuptiUnsubscribe"));
    CHECK(stand_in_calls("cuptiActivityEnable") == stand_in_calls("cuptiActivityDisable"));
    launch("after");  // goes nowhere
  }
}

TEST_CASE("what is handed over while nothing records is of no capture") {
  DeviceCapture first;
  launch("in the first");
  stand_in_settle(0);  // in CUPTI's buffer still
  CHECK(count_named(first.finish(), "in the first") == 1);
  DeviceCapture second;
  const std::uint64_t now = stand_in_now_ns();
  stand_in_kernel("late", 1, 0, 7, now - 3'000'000'000, now - 2'000'000'000);
  const Recording recording = second.finish();
  CHECK(recording.events.size() == 0);
  CHECK(drops(second.capture, DropReason::kDeviceTooEarly) == 1);
}

TEST_CASE("a clock that fails meanwhile leaves the times by the last reading") {
  DeviceCapture device;
  stand_in_fail("cuptiGetTimestamp", 999);
  const std::uint64_t begin_ns = stand_in_now_ns();
  launch("kernel");
  const Recording recording = device.finish();
  const std::size_t row = only_row(recording, "kernel");
  REQUIRE(row < recording.events.size());
  const auto start_ns = static_cast<std::uint64_t>(recording.events.start_ns[row]);
  constexpr std::uint64_t kMinute = 60'000'000'000;
  CHECK(start_ns > begin_ns - kMinute);
  CHECK(start_ns < stand_in_now_ns() + kMinute);
}

TEST_CASE("work of a time that has not come is counted, not recorded") {
  DeviceCapture device;
  const std::uint64_t now = stand_in_now_ns();
  constexpr std::uint64_t kHour = 3'600'000'000'000;
  stand_in_kernel("later", 1, 0, 7, now + kHour, now + kHour + 1);
  stand_in_kernel("endless", 2, 0, 7, now, ~std::uint64_t{0});
  launch("kernel");
  const Recording recording = device.finish();
  CHECK(count_named(recording, "kernel") == 1);
  CHECK(recording.events.size() == 2);  // and its call
  CHECK(drops(device.capture, DropReason::kDeviceNoTime) == 2);
}

TEST_CASE("a kernel that still runs at the end does not take along what has ended") {
  DeviceCapture device;
  for (int i = 0; i < 10; ++i) launch("ended");
  stand_in_kernel("runs", 99, 0, 7, stand_in_now_ns(), 0);
  const Recording recording = device.finish();
  CHECK(count_named(recording, "ended") == 10);
  CHECK(count_named(recording, "runs") == 0);
  CHECK(drops(device.capture, DropReason::kDeviceNoTime) == 1);
}

TEST_CASE("what CUPTI lost is counted in the capture in which it did") {
  stand_in_reset(kCupti13_0);
  stand_in_drop(7);  // before anybody recorded
  Capture first("", kSmallCapBytes);
  start(first);
  CHECK(refusal_of(first).empty());
  CHECK(stand_in_calls("cuptiActivityGetNumDroppedRecords") == 1);
  stand_in_drop(5);  // with no buffer handed over after it
  CHECK(first.stop_device());
  CHECK(drops(first, DropReason::kDeviceDropped) == 5);
  Capture second("", kSmallCapBytes);
  start(second);
  CHECK(refusal_of(second).empty());
  second.stop();
  CHECK(all_drops(second) == 0);
}

TEST_CASE("a last flush that fails is counted") {
  DeviceCapture device;
  launch("kernel");
  stand_in_fail("cuptiActivityFlushAll", 999);
  CHECK(device.capture.stop_device());
  CHECK(drops(device.capture, DropReason::kDeviceDropped) == 1);
  stand_in_fail("cuptiActivityFlushAll", 0);
}

TEST_CASE("functions that fail at the end do not keep it from ending") {
  for (const char* function : {"cuptiActivityDisable", "cuptiSetThreadIdType", "cuptiUnsubscribe",
                               "cuptiActivityGetNumDroppedRecords"}) {
    CAPTURE(function);
    DeviceCapture device;
    launch("kernel");
    stand_in_fail(function, 999);
    CHECK(device.capture.stop_device());
    CHECK(count_named(device.finish(), "kernel") == 1);
  }
}

TEST_CASE("calls of the recorder itself, and what they waited for, are not the program's") {
  constexpr std::uint32_t kContextWait = 4;
  DeviceCapture device;
  FakeOp op;
  op.start(device.slot, "aten::item");
  const std::uint64_t now_ns = stand_in_now_ns();
  stand_in_synchronize(stand_in_call(kDeviceSynchronize, 0), kContextWait, now_ns, now_ns + 10);
  op.end(device.slot);
  std::thread([&] {
    device.capture.set_own_device_thread(static_cast<std::uint32_t>(::gettid()));
    stand_in_synchronize(stand_in_call(kDeviceSynchronize, 0), kContextWait, now_ns, now_ns + 10);
  }).join();
  const Recording recording = device.finish();
  CHECK(count_named(recording, "cudaDeviceSynchronize") == 1);
  CHECK(count_named(recording, "Context Sync") == 1);
  CHECK(recording.tracks.size() == 2);  // the program's thread, and that of waits for the context
}

TEST_CASE("flush and drain bring what is complete into the recording before the stop") {
  DeviceCapture device;
  launch("kernel");
  collector().flush();
  REQUIRE(collector().drain(2'000));
  CHECK(device.capture.device_counts().kernels == 1);
  CHECK(count_named(read(device.capture), "kernel") == 1);
  device.capture.stop();
}

TEST_CASE("at its cap the pool refuses a CUPTI that can be refused, and CUPTI's drops are counted") {
  DeviceOptions options = all_kinds();
  options.max_buffer_bytes = 2 * cupti::kBufferBytes;
  DeviceCapture device(options);
  CHECK(stand_in_hold_buffers(5) == 2);
  launch("lost");
  stand_in_settle(0);
  stand_in_hold_buffers(0);
  REQUIRE(collector().drain(10'000));
  launch("kept");
  const Recording recording = device.finish();
  CHECK(count_named(recording, "lost") == 0);
  CHECK(count_named(recording, "kept") == 1);
  CHECK(drops(device.capture, DropReason::kDeviceDropped) == 2);  // the kernel and its call
}

TEST_CASE("a CUPTI that cannot be refused gets what nobody has read yet, and then more") {
  cupti::BufferPool pool;
  pool.open(2 * cupti::kBufferBytes, false);
  std::uint8_t* const first = pool.take().data;
  std::uint8_t* const second = pool.take().data;
  REQUIRE(first != nullptr);
  REQUIRE(second != nullptr);
  pool.put({.data = first, .valid_bytes = 40});
  const cupti::BufferPool::Taken stolen = pool.take();
  CHECK(stolen.data == first);
  REQUIRE(stolen.unread.has_value());
  CHECK(stolen.unread.value_or(cupti::FilledBuffer{}).valid_bytes == 40);
  const cupti::BufferPool::Taken third = pool.take();
  CHECK(third.data != nullptr);
  CHECK_FALSE(third.unread.has_value());
  CHECK(pool.allocated_bytes() == 3 * cupti::kBufferBytes);
  pool.put({.data = second});
  pool.read(pool.next().value_or(cupti::FilledBuffer{}));
  CHECK(pool.allocated_bytes() == 2 * cupti::kBufferBytes);  // what is over the cap goes at once
  pool.close();
  pool.put({.data = first});
  pool.put({.data = third.data});
  CHECK(pool.allocated_bytes() == 0);
}

TEST_CASE("an old CUPTI loses buffers that were not read, and their records are counted") {
  DeviceOptions options = all_kinds();
  options.max_buffer_bytes = cupti::kBufferBytes;
  DeviceCapture device(options, 26);
  CHECK(stand_in_hold_buffers(3) == 3);  // over the cap: a refusal would end the process
  constexpr std::size_t kLaunches = 60'000;
  for (std::size_t i = 0; i < kLaunches; ++i) launch("kernel");
  stand_in_hold_buffers(0);
  const Recording recording = device.finish();
  // Whatever the decoding thread did not come to is counted.
  CHECK(recording.events.size() + drops(device.capture, DropReason::kDeviceDropped) == 2 * kLaunches);
}

TEST_CASE("many buffers from another thread, decoded while ops go on") {
  DeviceCapture device;
  constexpr int kLaunches = 60'000;  // several buffers
  for (int i = 0; i < kLaunches; ++i) {
    FakeOp op;
    op.start(device.slot, "op");
    launch("kernel");
    op.end(device.slot);
  }
  const Recording recording = device.finish();
  CHECK(count_named(recording, "kernel") == kLaunches);
  CHECK(recording.links.to.size() == kLaunches);
  CHECK(device.capture.device_counts().buffers > 3);
  CHECK(all_drops(device.capture) == 0);
}

TEST_CASE("the child of a fork has no device and never calls CUPTI") {
  DeviceCapture device;
  FakeOp op;
  op.start(device.slot, "op");
  launch("kernel");
  stand_in_settle(0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::uint64_t calls = stand_in_calls("cuptiActivityPopExternalCorrelationId");
    op.end(device.slot);
    device.capture.stop_device();
    device.capture.stop();
    bool is_right = stand_in_calls("cuptiActivityPopExternalCorrelationId") == calls &&
                    device.capture.device_counts().kernels == 0 &&
                    !collector().probe({}, false).reason.empty();
#if !defined(TORCHPROF_TSAN)  // it forbids the child the thread that populates memory
    Capture own("", kSmallCapBytes);
    start(own);
    is_right = is_right && holds(refusal_of(own), "forked");
    own.stop();
#endif
    ::_exit(is_right ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 0);
  op.end(device.slot);
  CHECK(count_named(device.finish(), "kernel") == 1);
}

// Run by the next one, in a process of its own.
TEST_CASE("(helper) exit while the device records" * doctest::skip()) {
  auto* const device = new DeviceCapture;
  launch("kernel");
  collector().flush();
  if (!collector().drain(60'000) || device->capture.device_counts().kernels != 1) std::exit(1);
  std::latch launching(1);
  std::thread([&launching] {
    launching.count_down();
    while (true) launch("kernel");
  }).detach();
  launching.wait();
  std::exit(0);
}

TEST_CASE("a process may exit while the device records and other threads launch") {
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl("/proc/self/exe", "recorder_tests", "--no-skip",
            "--test-case=(helper) exit while the device records", nullptr);
    ::_exit(127);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("a CUPTI that does not return costs the capture its memory, not its end") {
  DeviceCapture device;
  launch("kernel");
  stand_in_hang(1);
  CHECK_FALSE(device.capture.stop_device());
  device.capture.stop();
  Capture later("", kSmallCapBytes);
  start(later);
  CHECK(holds(refusal_of(later), "did not return"));
  stand_in_hang(0);
  // Once it has returned all is well again.
  while (!refusal_of(later).empty()) std::this_thread::yield();
  launch("kernel");
  later.stop();
  CHECK(count_named(read(later), "kernel") == 1);
}
