#include <doctest/doctest.h>

#include "span_fixtures.h"
#include "spans/launch_queue.h"

namespace torchprof {
namespace {

using testing::Scene;

// Launch calls of one microsecond, one after the other, and the work of each on one stream.
struct Launches {
  Scene scene;
  std::uint32_t stream = scene.stream(0, 7);
  std::int64_t correlation = 0;

  void launch(std::int64_t call_ns, std::int64_t start_ns, std::int64_t end_ns,
              EventKind kind = EventKind::kKernel) {
    BuilderEvent call;
    call.kind = EventKind::kRuntime;
    call.correlation = ++correlation;
    scene.event("cudaLaunchKernel", call_ns, call_ns + 1000, call);
    BuilderEvent work;
    work.kind = kind;
    work.track = stream;
    work.correlation = correlation;
    scene.event("work", start_ns, end_ns, work);
  }

  [[nodiscard]] std::vector<QueuedWork> queued() {
    const Recording recording = scene.builder.finish();
    std::vector<std::uint32_t> launchers(recording.events.size(), UINT32_MAX);
    for (std::size_t row = 0; row < launchers.size(); ++row) {
      if (recording.tracks[recording.events.track[row]].kind != TrackKind::kStream) continue;
      for (std::uint32_t call = 0; call < launchers.size(); ++call) {
        const bool is_call = recording.tracks[recording.events.track[call]].kind == TrackKind::kThread;
        if (is_call && recording.events.correlation[call] == recording.events.correlation[row]) {
          launchers[row] = call;
        }
      }
    }
    return queued_work(recording, launchers);
  }
};

}  // namespace

TEST_CASE("work waits from the end of its call behind what had not ended then") {
  Launches launches;
  launches.launch(0, 5'000, 20'000);
  launches.launch(2'000, 20'000, 30'000, EventKind::kMemcpy);
  launches.launch(4'000, 30'000, 31'000);
  launches.launch(24'000, 31'000, 40'000);  // the first has ended, two have not
  launches.launch(90'000, 90'500, 95'000);  // begins before its call is over, on an idle stream
  const std::vector<QueuedWork> queued = launches.queued();
  REQUIRE(queued.size() == 5);
  const std::int64_t delays_ns[] = {4'000, 17'000, 25'000, 6'000, 0};
  const std::int64_t depths[] = {0, 1, 2, 2, 0};
  for (std::size_t i = 0; i < queued.size(); ++i) {
    CHECK(queued[i].delay_ns == delays_ns[i]);
    CHECK(queued[i].queue_depth == depths[i]);
    CHECK(find_queued_work(queued, queued[i].event) == &queued[i]);
  }
  CHECK(find_queued_work(queued, queued.front().event - 1) == nullptr);
  CHECK(find_queued_work(queued, queued.back().event + 1) == nullptr);
}

TEST_CASE("work of other streams and waits are nothing to queue behind") {
  Launches launches;
  launches.launch(0, 5'000, 50'000);
  launches.launch(2'000, 50'000, 50'000, EventKind::kSync);
  launches.stream = launches.scene.stream(0, 8);
  launches.launch(4'000, 6'000, 9'000);
  const std::vector<QueuedWork> queued = launches.queued();
  REQUIRE(queued.size() == 2);
  CHECK(queued[1].queue_depth == 0);
  CHECK(queued[1].delay_ns == 1'000);
}

TEST_CASE("a rate is in bytes a second and ends where integers do") {
  CHECK(bytes_per_second(4096, 1'000) == 4'096'000'000);
  CHECK(bytes_per_second(0, 1) == 0);
  CHECK(bytes_per_second(INT64_MAX, 1) == INT64_MAX);
}

}  // namespace torchprof
