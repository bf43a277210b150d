// Device work timed by events: a device of the test's own, whose clock moves when it is told to.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/tree.h"
#include "fake_torch.h"
#include "sources/device_events/event_timer.h"

using namespace torchprof;           // NOLINT(google-build-using-namespace)
using namespace torchprof::testing;  // NOLINT(google-build-using-namespace)
using device_events::EventTimer;

namespace {

constexpr double kNsPerUs = 1000.0;

struct FakeEvent {
  double ns;
  std::int32_t device;
};

// What a backend does; of one test at a time.
struct FakeDevice {
  std::atomic<double> now_ns{0};
  std::atomic<std::int32_t> current{0};
  std::atomic<int> events{0};    // not released
  std::atomic<int> refusals{0};  // of the next events
  std::atomic<bool> is_broken{false};
  std::chrono::milliseconds read_time{0};  // of each two events
  std::mutex mutex;
  std::condition_variable signal;
  bool hangs = false;
  std::set<const FakeEvent*> made;  // and not released

  // Frees what was never released.
  ~FakeDevice() {
    for (const FakeEvent* event : made) delete event;
  }
  void work(double us) { now_ns.store(now_ns.load() + (us * kNsPerUs)); }
  void hang(bool wanted) {
    {
      const std::lock_guard lock(mutex);
      hangs = wanted;
    }
    signal.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    signal.wait(lock, [this]() noexcept { return !hangs; });
  }
};

FakeDevice* device = nullptr;

void* record(std::int32_t* index) {
  if (device->is_broken.load() || device->refusals.fetch_sub(1) > 0) {
    return nullptr;
  }
  ++device->events;
  *index = device->current.load();
  auto* const event = new FakeEvent{.ns = device->now_ns.load(), .device = *index};
  const std::lock_guard lock(device->mutex);
  device->made.insert(event);
  return event;
}

double elapsed_ns(const void* from, const void* to) {
  device->wait();
  if (device->read_time.count() != 0) {
    std::this_thread::sleep_for(device->read_time);
  }
  const auto& first = *static_cast<const FakeEvent*>(from);
  const auto& second = *static_cast<const FakeEvent*>(to);
  return first.device == second.device ? second.ns - first.ns : std::numeric_limits<double>::quiet_NaN();
}

void release(void* event) {
  {
    const std::lock_guard lock(device->mutex);
    device->made.erase(static_cast<FakeEvent*>(event));
  }
  delete static_cast<FakeEvent*>(event);
  --device->events;
}

int synchronize() { return device->is_broken.load() ? TORCHPROF_TORCH_REFUSED : TORCHPROF_OK; }

constexpr torchprof_device_events kEvents{
    .record = record, .elapsed_ns = elapsed_ns, .release = release, .synchronize = synchronize};

struct TimedCapture {
  explicit TimedCapture(std::size_t max_ops = EventTimer::kMaxOps,
                        std::chrono::milliseconds stop_timeout = std::chrono::minutes(1))
      : timer(kEvents, max_ops, stop_timeout) {
    device = &fake;
    slot = start(capture);
  }
  void time() { capture.start_device(timer, {}); }
  Recording finish() {
    capture.stop();
    return read(capture);
  }

  FakeDevice fake;
  EventTimer timer;
  Capture capture{"", kCapBytes};
  std::uint32_t slot = 0;
};

bool is_piece(const Recording& recording, std::size_t row) {
  return recording.events.kind[row] == static_cast<std::uint8_t>(EventKind::kKernel);
}

double duration_us(const Recording& recording, std::size_t row) {
  return static_cast<double>(recording.events.end_ns[row] - recording.events.start_ns[row]) / kNsPerUs;
}

// Of the pieces that this row launched.
double launched_us(const Recording& recording, std::size_t launcher) {
  double sum = 0;
  for (std::size_t i = 0; i < recording.links.to.size(); ++i) {
    if (recording.links.from[i] == launcher) {
      sum += duration_us(recording, recording.links.to[i]);
    }
  }
  return sum;
}

// The only op, not piece, of this name.
std::size_t op_row(const Recording& recording, std::string_view name) {
  for (std::size_t row = 0; row < recording.events.size(); ++row) {
    if (!is_piece(recording, row) && name_of(recording, row) == name) {
      return row;
    }
  }
  return recording.events.size();
}

std::size_t count_pieces(const Recording& recording) {
  std::size_t count = 0;
  for (std::size_t row = 0; row < recording.events.size(); ++row) {
    count += is_piece(recording, row) ? 1 : 0;
  }
  return count;
}

}  // namespace

TEST_CASE("what an op and those inside it did on the device is told apart, and adds up") {
  TimedCapture timed;
  timed.time();
  FakeOp outer;
  FakeOp inner;
  timed.fake.work(50);  // of nobody
  outer.start(timed.slot, "aten::linear");
  timed.fake.work(100);
  inner.start(timed.slot, "aten::addmm");
  timed.fake.work(200);
  inner.end(timed.slot);
  timed.fake.work(30);
  outer.end(timed.slot);
  timed.fake.work(70);
  record_op(timed.slot, "aten::nothing");
  const Recording recording = timed.finish();

  CHECK(recording.problems.empty());
  CHECK(all_drops(timed.capture) == 0);
  CHECK(launched_us(recording, op_row(recording, "aten::linear")) == doctest::Approx(130).epsilon(0.001));
  CHECK(launched_us(recording, op_row(recording, "aten::addmm")) == doctest::Approx(200).epsilon(0.001));
  CHECK(launched_us(recording, op_row(recording, "aten::nothing")) == 0);
  CHECK(count_pieces(recording) == 3);
  CHECK(timed.capture.device_counts().kernels == 3);
  std::int64_t previous_end_ns = 0;
  for (std::size_t row = 0; row < recording.events.size(); ++row) {
    if (is_piece(recording, row)) {
      CHECK(recording.tracks[recording.events.track[row]].kind == TrackKind::kStream);
      CHECK(recording.tracks[recording.events.track[row]].device == 0);
      CHECK(recording.events.start_ns[row] >= previous_end_ns);
      previous_end_ns = recording.events.end_ns[row];
    }
  }
  CHECK(timed.fake.events == 0);
}

TEST_CASE("each thread's ops are timed by themselves") {
  TimedCapture timed;
  timed.time();
  FakeOp here;
  here.start(timed.slot, "here");
  std::thread([&timed] {
    FakeOp there;
    there.start(timed.slot, "there");
    timed.fake.work(10);
    there.end(timed.slot);
  }).join();
  timed.fake.work(5);
  here.end(timed.slot);
  const Recording recording = timed.finish();

  CHECK(launched_us(recording, op_row(recording, "here")) == doctest::Approx(15).epsilon(0.001));
  CHECK(launched_us(recording, op_row(recording, "there")) == doctest::Approx(10).epsilon(0.001));
  CHECK(recording.problems.empty());
}

TEST_CASE("an op that ends on another thread does not disturb those around it") {
  TimedCapture timed;
  timed.time();
  FakeOp outer;
  FakeOp moved;
  outer.start(timed.slot, "outer");
  moved.start(timed.slot, "moved");
  timed.fake.work(10);
  std::thread([&] { moved.end(timed.slot, true); }).join();
  timed.fake.work(20);
  outer.end(timed.slot);
  const Recording recording = timed.finish();

  CHECK(launched_us(recording, op_row(recording, "outer")) +
            launched_us(recording, op_row(recording, "moved")) ==
        doctest::Approx(30).epsilon(0.001));
  CHECK(timed.fake.events == 0);
}

TEST_CASE("a time between two devices is no time, and is counted as lost") {
  TimedCapture timed;
  timed.time();
  FakeOp outer;
  FakeOp inner;
  outer.start(timed.slot, "outer");
  timed.fake.work(10);
  timed.fake.current = 1;
  inner.start(timed.slot, "inner");
  timed.fake.work(20);
  inner.end(timed.slot);
  outer.end(timed.slot);
  const Recording recording = timed.finish();

  CHECK(launched_us(recording, op_row(recording, "outer")) == 0);
  const std::size_t inner_row = op_row(recording, "inner");
  CHECK(launched_us(recording, inner_row) == doctest::Approx(20).epsilon(0.001));
  CHECK(drops(timed.capture, DropReason::kDeviceDropped) == 1);
}

TEST_CASE("ops that begin while the device is not recorded are not timed") {
  TimedCapture timed;
  timed.time();
  for (const char* const name : {"first", "second", "third"}) {
    timed.capture.record_device(name != std::string_view("second"));
    FakeOp op;
    op.start(timed.slot, name);
    timed.fake.work(10);
    op.end(timed.slot);
  }
  const Recording recording = timed.finish();

  CHECK(launched_us(recording, op_row(recording, "first")) == doctest::Approx(10).epsilon(0.001));
  CHECK(launched_us(recording, op_row(recording, "second")) == 0);
  CHECK(launched_us(recording, op_row(recording, "third")) == doctest::Approx(10).epsilon(0.001));
  CHECK(all_drops(timed.capture) == 0);
}

TEST_CASE("events that the device refuses are counted, and what lies beside them is timed") {
  TimedCapture timed;
  timed.time();
  FakeOp first;
  first.start(timed.slot, "first");
  timed.fake.work(10);
  timed.fake.refusals = 1;
  first.end(timed.slot);
  FakeOp second;
  second.start(timed.slot, "second");
  timed.fake.work(20);
  second.end(timed.slot);
  const Recording recording = timed.finish();

  CHECK(launched_us(recording, op_row(recording, "first")) == 0);
  CHECK(launched_us(recording, op_row(recording, "second")) == doctest::Approx(20).epsilon(0.001));
  CHECK(drops(timed.capture, DropReason::kDeviceDropped) == 1);
}

TEST_CASE("beyond the bound ops are recorded without their time on the device, and counted") {
  TimedCapture timed(2);
  timed.time();
  for (const char* const name : {"first", "second", "third"}) {
    FakeOp op;
    op.start(timed.slot, name);
    timed.fake.work(10);
    op.end(timed.slot);
  }
  const Recording recording = timed.finish();

  CHECK(launched_us(recording, op_row(recording, "second")) == doctest::Approx(10).epsilon(0.001));
  CHECK(launched_us(recording, op_row(recording, "third")) == 0);
  CHECK(op_row(recording, "third") < recording.events.size());
  CHECK(drops(timed.capture, DropReason::kDeviceDropped) == 1);
}

TEST_CASE("a device that takes no events is refused, and so is a second capture meanwhile") {
  TimedCapture timed;
  timed.fake.is_broken = true;
  CHECK_THROWS_AS(timed.time(), DeviceRefused);
  timed.fake.is_broken = false;
  timed.time();
  Capture second("", kCapBytes);
  start(second);
  CHECK_THROWS_AS(second.start_device(timed.timer, {}), DeviceRefused);
  second.stop();
  record_op(timed.slot, "op");
  CHECK(timed.finish().events.size() == 1);
  CHECK(timed.fake.events == 0);

  Capture third("", kCapBytes);
  start(third);
  third.start_device(timed.timer, {});
  third.stop();
  CHECK(timed.fake.events == 0);
}

TEST_CASE("a device that hangs does not hang the end") {
  TimedCapture timed(EventTimer::kMaxOps, std::chrono::milliseconds(20));
  timed.time();
  FakeOp op;
  op.start(timed.slot, "op");
  timed.fake.work(10);
  op.end(timed.slot);
  timed.fake.hang(true);
  const Recording recording = timed.finish();
  CHECK(op_row(recording, "op") < recording.events.size());
  CHECK(count_pieces(recording) == 0);
  CHECK(drops(timed.capture, DropReason::kDeviceDropped) == 1);

  timed.fake.hang(false);
  while (timed.fake.events != 0) {
    std::this_thread::yield();  // the thread that waited lets go of them
  }
  CHECK(count_pieces(read(timed.capture)) == 0);  // nothing is written into a capture that has ended
}

TEST_CASE("a device that is slow to tell, but tells, is heard to the end") {
  // All takes longer than the timeout, and each event a small part of it, also on a machine that is busy.
  TimedCapture timed(EventTimer::kMaxOps, std::chrono::seconds(1));
  timed.time();
  for (int i = 0; i < 6; ++i) {
    record_op(timed.slot, "op");
    timed.fake.work(5);
  }
  timed.fake.read_time = std::chrono::milliseconds(60);
  CHECK(timed.capture.stop_device());
  CHECK(all_drops(timed.capture) == 0);
}

TEST_CASE("events of a device that failed are left alone: to destroy them is an error") {
  TimedCapture timed;
  timed.time();
  record_op(timed.slot, "op");
  const int events = timed.fake.events.load();
  CHECK(events > 0);
  timed.fake.is_broken.store(true);
  timed.finish();
  CHECK(timed.fake.events.load() == events);
}

TEST_CASE("threads that begin and end ops while captures come and go") {
  FakeDevice fake;
  device = &fake;
  EventTimer timer(kEvents);
  constexpr int kCaptures = 20;
  std::atomic<bool> is_over{false};
  std::atomic<std::uint32_t> slot{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!is_over) {
        FakeOp outer;
        const std::uint32_t at = slot;
        outer.start(at, "outer");
        record_op(at, "inner");
        outer.end(at);
      }
    });
  }
  for (int i = 0; i < kCaptures; ++i) {
    Capture capture("", kCapBytes);
    slot = start(capture);
    capture.start_device(timer, {});
    while (capture.recorded() < 100) {
      fake.work(1);
      std::this_thread::yield();
    }
    capture.stop();
    CHECK(read(capture).problems.empty());
  }
  is_over = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(fake.events == 0);
}
