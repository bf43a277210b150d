// Scopes of our own: who hears of them, and what they are to those.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "core/aggregate/op_aggregator.h"
#include "core/thread_state.h"
#include "core/user_scope.h"
#include "fake_torch.h"

using namespace torchprof;           // NOLINT(google-build-using-namespace)
using namespace torchprof::testing;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::uint8_t kUserScope = 7;

class Listening {
 public:
  explicit Listening(std::uint32_t user) : user_(user) { listen_to_scopes(user, true); }
  ~Listening() { listen_to_scopes(user_, false); }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

 private:
  std::uint32_t user_;
};

void mark(const char* name) {
  UserScope scope;
  scope.begin(name);
  scope.end();
}

}  // namespace

TEST_CASE("a scope is a user scope to the captures that listen when it begins, and nothing to others") {
  Capture listens("", kCapBytes);
  Capture does_not("", kCapBytes);
  const std::uint32_t slot = start(listens);
  start(does_not);
  mark("before");
  {
    const Listening listening(slot);
    UserScope outer;
    outer.begin("outer");
    record_op(slot, "op");
    outer.end();
  }
  mark("after");
  listens.stop();
  does_not.stop();

  const Recording recording = read(listens);
  REQUIRE(recording.events.size() == 2);
  const std::size_t outer = only_row(recording, "outer");
  REQUIRE(outer == 0);
  CHECK(recording.events.kind[outer] == static_cast<std::uint8_t>(EventKind::kUser));
  CHECK(recording.events.scope[outer] == kUserScope);
  CHECK(recording.events.sequence[outer] == -1);
  CHECK(recording.events.flags[outer] == 0);
  CHECK(recording.events.end_ns[outer] >= recording.events.end_ns[1]);
  // The op came second, and still named the thread.
  REQUIRE(recording.tracks.size() == 1);
  CHECK(recording.tracks[0].torch_thread_id == 7);
  CHECK(all_drops(listens) == 0);
  CHECK(read(does_not).events.size() == 0);
}

TEST_CASE(
    "a scope that fails says with what, wherever it is on the stack; one that ends elsewhere does not") {
  Capture capture("", kCapBytes);
  const std::uint32_t slot = start(capture);
  {
    const Listening listening(slot);
    UserScope outer;
    UserScope inner;
    UserScope elsewhere;
    outer.begin("outer");
    inner.begin("inner");
    elsewhere.begin("elsewhere");
    outer.fail("ValueError");  // not the innermost
    outer.end();
    std::thread([&elsewhere] {
      elsewhere.fail("KeyError");
      elsewhere.end();
    }).join();
    inner.fail("ValueError");
    inner.fail("torch.OutOfMemoryError");
    inner.end();
    inner.fail("RuntimeError");  // over
  }
  mark("unheard");
  capture.stop();

  const Recording recording = read(capture);
  REQUIRE(recording.events.error.size() == 3);
  const auto error_of = [&recording](const char* name) {
    return recording.strings.name(recording.events.error[only_row(recording, name)]);
  };
  CHECK(error_of("outer") == "ValueError");
  CHECK(error_of("inner") == "torch.OutOfMemoryError");
  CHECK(error_of("elsewhere") == "");
  CHECK(all_drops(capture) == 0);
}

TEST_CASE("without a failed scope there is no column of errors") {
  Capture capture("", kCapBytes);
  const std::uint32_t slot = start(capture);
  const Listening listening(slot);
  mark("well");
  capture.stop();
  CHECK(read(capture).events.error.empty());
}

TEST_CASE("a scope ends for those who heard its beginning, whoever listens by then") {
  Capture first("", kCapBytes);
  const std::uint32_t slot = start(first);
  UserScope heard;
  UserScope unheard;
  unheard.begin("unheard");
  {
    const Listening listening(slot);
    heard.begin("heard");
  }
  heard.end();
  {
    const Listening listening(slot);
    unheard.end();
  }
  first.stop();
  const Recording recording = read(first);
  REQUIRE(recording.events.size() == 1);
  CHECK(name_of(recording, 0) == "heard");
  CHECK(recording.events.flags[0] == 0);
  CHECK(all_drops(first) == 0);
}

TEST_CASE("scopes of many threads are recorded and counted, each once") {
  constexpr int kThreads = 4;
  constexpr int kScopes = 2000;
  Capture capture("", kCapBytes);
  OpAggregator counts(100, false);
  counts.start();
  counts.set_weight(1);
  const Listening recording_all(start(capture));
  const Listening counting_all(kCountingUser);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([] {
      for (int j = 0; j < kScopes; ++j) {
        mark("scope");
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  capture.stop();
  counts.stop();
  CHECK(count_named(read(capture), "scope") == std::size_t{kThreads} * kScopes);
  CHECK(all_drops(capture) == 0);
  CHECK(counts.counted() == std::uint64_t{kThreads} * kScopes);
}

TEST_CASE("captures come and go while a thread marks scopes, and each has its own") {
  std::atomic<bool> done{false};
  std::thread marking([&done] {
    while (!done) {
      mark("scope");
    }
  });
  std::uint64_t recorded = 0;
  while (recorded == 0) {
    Capture capture("", kSmallCapBytes);
    const std::uint32_t slot = start(capture);
    record_op(slot, "op");  // takes room for this thread before the other may fill all there is
    {
      const Listening listening(slot);
      for (int i = 0; i < 100; ++i) {
        mark("own");
      }
    }
    capture.stop();
    const Recording recording = read(capture);
    CHECK(count_named(recording, "own") == 100);
    recorded += count_named(recording, "scope");
  }
  done = true;
  marking.join();
}

#if !defined(__SANITIZE_THREAD__)  // it supports no threads after a fork of a threaded process
TEST_CASE("a scope that a forked child inherits is nothing there, and nobody listens") {
  Capture capture("", kCapBytes);
  const std::uint32_t slot = start(capture);
  const Listening listening(slot);
  UserScope inherited;
  inherited.begin("inherited");
  const pid_t child = ::fork();
  if (child == 0) {
    Capture own("", kCapBytes);
    listen_to_scopes(start(own), scope_listeners == 0);
    inherited.end();
    mark("own");
    own.stop();
    ::_exit(count_named(read(own), "own") == 1 && all_drops(own) == 0 ? 0 : 1);
  }
  inherited.end();
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  capture.stop();
  CHECK(count_named(read(capture), "inherited") == 1);
}
#endif
