// Counters of a capture: steps, threads and events, whatever counts.
#include <doctest/doctest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <memory>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "core/counter_series.h"
#include "core/thread_state.h"
#include "fake_counters.h"
#include "fake_torch.h"

using namespace torchprof;           // NOLINT(google-build-using-namespace)
using namespace torchprof::testing;  // NOLINT(google-build-using-namespace)

namespace {

using Values = std::vector<double>;

std::uint32_t thread_id() { return static_cast<std::uint32_t>(::syscall(SYS_gettid)); }

double sum(const Values& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

struct FakeSpan : FakeOp {
  void start(std::uint32_t slot, const char* name) {
    torchprof_op_start op{};
    op.key = this;
    op.name = name;
    op.overload = "";
    op.sequence = -1;
    op.is_user = 1;
    core_table().op_start(slot, &op);
  }
};

struct CountingCapture {
  FakeCounts counts;
  Capture capture{"", kSmallCapBytes};
  std::uint32_t slot = torchprof::testing::start(capture);

  void start(CounterScope scope = CounterScope::kUserSpans) {
    capture.start_counters(std::make_unique<FakeSource>(counts), kFakeNames, scope);
  }
  FakeCounts::Thread& here() { return counts.of(thread_id()); }
  Recording stop() {
    capture.stop();
    return read(capture);
  }
};

}  // namespace

TEST_CASE("what a thread counts in a step is what was read between its ends") {
  CountingCapture counting;
  counting.start();
  counting.here().count(1000);  // before the first step
  counting.capture.begin_step({.number = 0});
  counting.here().count(10);
  counting.capture.begin_step({.number = 1});
  counting.here().count(20);
  counting.capture.end_step();
  counting.here().count(3000);  // after the last
  const Recording recording = counting.stop();

  CHECK(values_of(recording, "beats", -1) == Values{1000, 10, 20, 3000});
  CHECK(values_of(recording, "double-beats", -1) == Values{2000, 20, 40, 6000});
  REQUIRE(recording.steps.size() == 2);
  for (const Step& step : recording.steps) {
    double in_step = 0;
    for (const CounterRecord& counter : recording.counters) {
      const auto time_ns = static_cast<std::int64_t>(counter.time);
      const bool is_inside = time_ns > step.start_ns && time_ns <= step.end_ns;
      if (is_inside && recording.strings.name(counter.name) == "beats") in_step += counter.value;
    }
    CHECK(in_step == (step.number == 0 ? 10 : 20));
  }
  CHECK(all_drops(counting.capture) == 0);
}

TEST_CASE("threads that record no op are counted, each on its track") {
  CountingCapture counting;
  std::latch counted(1);
  std::latch stopped(1);
  std::atomic<std::uint32_t> other{0};
  std::thread silent([&] {
    other = thread_id();
    counting.counts.of(other).count(500);  // before there are counters
    counted.count_down();
    stopped.wait();
  });
  counted.wait();
  counting.start();
  counting.counts.of(other).count(7);
  counting.here().count(5);
  const Recording recording = counting.stop();
  stopped.count_down();
  silent.join();

  CHECK(sum(values_of(recording, "beats", -1)) == 512);
  for (const CounterRecord& counter : recording.counters) {
    const bool is_other = recording.tracks[counter.track].thread_id == static_cast<std::int64_t>(other);
    if (recording.strings.name(counter.name) == "beats") CHECK(counter.value == (is_other ? 507 : 5));
  }
}

TEST_CASE("a thread that records ops after it was counted has one track") {
  CountingCapture counting;
  std::latch met(1);
  std::latch recorded(1);
  std::int64_t late_id = 0;
  std::thread late([&] {
    late_id = thread_id();
    met.wait();
    record_op(counting.slot, "late");
    counting.here().count(3);
    recorded.count_down();
  });
  counting.start();
  met.count_down();
  recorded.wait();
  const Recording recording = counting.stop();
  late.join();
  CHECK(std::count_if(recording.tracks.begin(), recording.tracks.end(),
                      [&](const Track& track) { return track.thread_id == late_id; }) == 1);
  CHECK(values_of(recording, "beats", -1) == Values{3});
}

TEST_CASE("what a thread counted until it ended is kept") {
  CountingCapture counting;
  counting.start();
  for (int i = 0; i < 20; ++i) {
    std::thread([&] {
      record_op(counting.slot, "op");
      counting.here().count(100);
    }).join();
  }
  // Ids are not used again so soon that one would stand for two threads.
  const Recording recording = counting.stop();
  CHECK(sum(values_of(recording, "beats", -1)) == 2000);
  CHECK(counting.counts.open == 0);
  CHECK(all_drops(counting.capture) == 0);
}

TEST_CASE("user spans are counted over, on their thread alone") {
  CountingCapture counting;
  counting.start();
  FakeSpan outer;
  FakeSpan inner;
  FakeOp op;
  outer.start(counting.slot, "outer");
  counting.here().count(1);
  inner.start(counting.slot, "inner");
  op.start(counting.slot, "op");
  counting.here().count(10);
  op.end(counting.slot);
  std::thread([&] {
    counting.here().count(1'000'000);
    record_op(counting.slot, "elsewhere");
  }).join();
  inner.end(counting.slot);
  counting.here().count(100);
  outer.end(counting.slot);
  counting.here().count(1000);
  const Recording recording = counting.stop();

  const auto of = [&](const char* name) {
    return values_of(recording, "beats", static_cast<std::int64_t>(only_row(recording, name)));
  };
  CHECK(of("outer") == Values{111});
  CHECK(of("inner") == Values{10});
  CHECK(of("op").empty());
  CHECK(of("elsewhere").empty());
  CHECK(sum(values_of(recording, "beats", -1)) == 1'001'111);
  CHECK(recording.problems.empty());
}

TEST_CASE("ops are counted over on request") {
  CountingCapture counting;
  counting.start(CounterScope::kOps);
  FakeOp outer;
  FakeOp inner;
  outer.start(counting.slot, "outer");
  inner.start(counting.slot, "inner");
  counting.here().count(4);
  outer.end(counting.slot);  // before the one inside it
  counting.here().count(8);
  inner.end(counting.slot);
  const Recording recording = counting.stop();
  CHECK(values_of(recording, "beats", static_cast<std::int64_t>(only_row(recording, "outer"))) == Values{4});
  CHECK(values_of(recording, "beats", static_cast<std::int64_t>(only_row(recording, "inner"))) == Values{12});
}

TEST_CASE("a span that ends on another thread is not counted over") {
  CountingCapture counting;
  counting.start();
  FakeSpan moved;
  FakeSpan after;
  moved.start(counting.slot, "moved");
  std::thread([&] { moved.end(counting.slot); }).join();
  after.start(counting.slot, "after");
  counting.here().count(2);
  after.end(counting.slot);
  const Recording recording = counting.stop();
  CHECK(values_of(recording, "beats", static_cast<std::int64_t>(only_row(recording, "moved"))).empty());
  CHECK(values_of(recording, "beats", static_cast<std::int64_t>(only_row(recording, "after"))) == Values{2});
}

TEST_CASE("what had its turn for a part of the time only is scaled up and called an estimate") {
  CountingCapture counting;
  counting.start();
  counting.here().count(100);
  counting.capture.begin_step({.number = 0});
  counting.here().count(300, 100);
  const Recording recording = counting.stop();
  CHECK(values_of(recording, "beats", -1, kCounted) == Values{100});
  CHECK(values_of(recording, "beats", -1, kEstimated) == Values{900});
}

TEST_CASE("counters that never had their turn are dropped, until they have it") {
  CountingCapture counting;
  counting.start();
  counting.here().count(100, 0);
  counting.capture.begin_step({.number = 0});
  CHECK(drops(counting.capture, DropReason::kNotCounted) == 1);
  counting.here().count(100, 100);
  const Recording recording = counting.stop();
  CHECK(values_of(recording, "beats", -1, kEstimated) == Values{400});
}

TEST_CASE("a thread whose counters do not open is counted as dropped, once, and its ops are recorded") {
  CountingCapture counting;
  counting.counts.refuses = true;
  counting.start();
  const std::uint64_t threads =
      drops(counting.capture, DropReason::kNotCounted);  // a sanitizer's are among them
  CHECK(threads >= 1);
  FakeSpan span;
  span.start(counting.slot, "span");
  span.end(counting.slot);
  for (int step = 0; step < 3; ++step) counting.capture.begin_step({.number = step});
  const Recording recording = counting.stop();
  CHECK(drops(counting.capture, DropReason::kNotCounted) == threads);
  CHECK(count_named(recording, "span") == 1);
  CHECK(recording.counters.empty());
}

TEST_CASE("counters that cannot be read leave ops and later readings whole") {
  CountingCapture counting;
  counting.start();
  FakeSpan span;
  span.start(counting.slot, "span");
  counting.here().readable = false;
  span.end(counting.slot);
  CHECK(drops(counting.capture, DropReason::kNotCounted) == 1);
  counting.here().readable = true;
  counting.here().count(6);
  const Recording recording = counting.stop();
  CHECK(count_named(recording, "span") == 1);
  CHECK(values_of(recording, "beats", -1) == Values{6});
}

TEST_CASE("without room for readings they are dropped, and the next says what they would have") {
  FakeCounts counts;
  Capture capture("", kMinCapBytes);
  const std::uint32_t slot = start(capture);
  capture.start_counters(std::make_unique<FakeSource>(counts), kFakeNames, CounterScope::kOps);
  for (int i = 0; i < 20'000; ++i) record_op(slot, "op");
  CHECK(drops(capture, DropReason::kByteCap) > 0);
  capture.stop();
  CHECK(count_named(read(capture), "op") > 0);
}

TEST_CASE("spans too deep to be counted are recorded all the same") {
  CountingCapture counting;
  counting.start();
  std::vector<FakeSpan> spans(kMaxCountedEvents + 3);
  for (FakeSpan& span : spans) span.start(counting.slot, "span");
  counting.here().count(1);
  for (auto span = spans.rbegin(); span != spans.rend(); ++span) span->end(counting.slot);
  const Recording recording = counting.stop();
  CHECK(count_named(recording, "span") == spans.size());
  CHECK(drops(counting.capture, DropReason::kNotCounted) == 3);
  std::set<std::int64_t> events;
  for (const CounterRecord& counter : recording.counters) events.insert(counter.event);
  events.erase(-1);
  CHECK(events.size() == kMaxCountedEvents);
}

TEST_CASE("a capture that is not recording takes no counters, one that does takes them once") {
  FakeCounts counts;
  Capture capture("", kSmallCapBytes);
  const auto start_counters = [&] {
    capture.start_counters(std::make_unique<FakeSource>(counts), kFakeNames, CounterScope::kUserSpans);
  };
  CHECK_THROWS_AS(start_counters(), std::runtime_error);
  capture.start();
  start_counters();
  CHECK_THROWS_AS(start_counters(), std::runtime_error);
  capture.stop_counters();
  capture.stop_counters();
  counts.of(thread_id()).count(1);  // after the last reading
  capture.stop();
  CHECK_THROWS_AS(start_counters(), std::runtime_error);
  CHECK(read(capture).counters.empty());
  CHECK(counts.open == 0);
}

TEST_CASE("four captures count at once while threads come and go") {
  FakeCounts counts;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<Capture>> captures;
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    captures.push_back(std::make_unique<Capture>("", kSmallCapBytes));
    const std::uint32_t slot = start(*captures.back());
    threads.emplace_back([&counts, &stop, slot] {
      while (!stop) {
        std::thread([&counts, slot] {
          FakeSpan span;
          span.start(slot, "span");
          counts.of(thread_id()).count(1);
          span.end(slot);
        }).join();
      }
    });
  }
  for (int round = 0; round < 10; ++round) {
    for (auto& capture : captures) {
      if (round == 0) {
        capture->start_counters(std::make_unique<FakeSource>(counts), kFakeNames, CounterScope::kOps);
      }
      capture->begin_step({.number = round});
    }
  }
  for (auto& capture : captures) capture->stop();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  for (auto& capture : captures) {
    const Recording recording = read(*capture);
    CHECK(recording.steps.size() == 10);
    CHECK(recording.problems.empty());
  }
  CHECK(counts.open == 0);
}
