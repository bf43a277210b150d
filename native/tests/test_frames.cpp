// Python frames: what the hook reports, without Python.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "core/frame_hooks.h"
#include "core/tree.h"
#include "fake_torch.h"

using namespace torchprof;           // NOLINT(google-build-using-namespace)
using namespace torchprof::testing;  // NOLINT(google-build-using-namespace)

namespace {

// Stands for a frame object: its address is the key.
struct alignas(16) FakeFrame {
  char placeholder = 0;
};

std::uint32_t name_id(std::uint32_t slot, const char* name) {
  const Name text{.name = name, .overload = "file.py:1"};
  return slots[slot].recording.load()->strings().intern(text, text.hash()).id;
}

template <typename Do>
void in_log(std::uint32_t slot, Do action) {
  ThreadState* thread = thread_of_frames(slot);
  REQUIRE(thread != nullptr);
  const HookScope scope(*thread);
  FrameLog* log = frame_log_of(*thread, slot);
  REQUIRE(log != nullptr);
  action(*log);
}

void enter(std::uint32_t slot, const FakeFrame& frame, const char* name) {
  in_log(slot, [&](FrameLog& log) { log.enter(&frame, name_id(slot, name), EventKind::kPython); });
}

void leave(std::uint32_t slot, const FakeFrame& frame) {
  in_log(slot, [&](FrameLog& log) { log.leave(&frame, ticks()); });
}

std::string parent_of(const Recording& recording, const std::string& name) {
  const Tree tree = build_tree(recording);
  const std::size_t row = only_row(recording, name);
  REQUIRE(row < recording.events.size());
  const std::int64_t parent = tree.parent[row];
  return parent < 0 ? "" : name_of(recording, static_cast<std::size_t>(parent));
}

std::uint16_t flags_of(const Recording& recording, const std::string& name) {
  const std::size_t row = only_row(recording, name);
  REQUIRE(row < recording.events.size());
  return recording.events.flags[row];
}

}  // namespace

TEST_CASE("frames and ops are one tree") {
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  const FakeFrame outer;
  const FakeFrame inner;
  enter(slot, outer, "outer");
  FakeOp op;
  op.start(slot, "op");
  enter(slot, inner, "inner");
  in_log(slot, [&](FrameLog& log) {
    log.enter(c_call_key(&inner), name_id(slot, "c function"), EventKind::kPythonC);
    log.leave(c_call_key(&inner), ticks());
  });
  leave(slot, inner);
  op.end(slot);
  leave(slot, outer);
  CHECK(capture.recorded() == 4);
  capture.stop();
  const Recording recording = read(capture);
  REQUIRE(recording.events.size() == 4);
  CHECK(recording.problems.empty());
  CHECK(parent_of(recording, "outer").empty());
  CHECK(parent_of(recording, "op") == "outer");
  CHECK(parent_of(recording, "inner") == "op");
  CHECK(parent_of(recording, "c function") == "inner");
  const std::size_t row = only_row(recording, "c function");
  CHECK(recording.events.kind[row] == static_cast<std::uint8_t>(EventKind::kPythonC));
  CHECK(recording.strings.overload(recording.events.name[row]) == "file.py:1");
  CHECK(recording.events.flags[row] == 0);
  CHECK(all_drops(capture) == 0);
}

TEST_CASE("frames open at the stop are unfinished") {
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  const FakeFrame frame;
  enter(slot, frame, "frame");
  const Recording running = read(capture);
  CHECK(flags_of(running, "frame") == kFlagUnfinished);
  capture.stop();
  const Recording recording = read(capture);
  CHECK(flags_of(recording, "frame") == kFlagUnfinished);
  CHECK(recording.events.end_ns[0] <= recording.end_ns);
}

TEST_CASE("a lost return ends with the frame around it") {
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  const FakeFrame outer;
  const FakeFrame lost;
  const FakeFrame unknown;
  enter(slot, outer, "outer");
  enter(slot, lost, "lost");
  leave(slot, outer);
  leave(slot, unknown);
  capture.stop();
  const Recording recording = read(capture);
  CHECK(flags_of(recording, "outer") == 0);
  CHECK(flags_of(recording, "lost") == kFlagUnfinished);
  CHECK(parent_of(recording, "lost") == "outer");
  CHECK(drops(capture, DropReason::kUnmatchedEnd) == 1);
}

TEST_CASE("what is on the stack when a thread is watched again goes on") {
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  const std::array<FakeFrame, 4> frames;
  enter(slot, frames[0], "stays");
  enter(slot, frames[1], "gone");
  const std::uint64_t since = ticks();
  in_log(slot, [&](FrameLog& log) {
    const std::vector<StandingFrame> standing{
        {.key = &frames[0], .name = name_id(slot, "stays"), .is_hidden = false},
        {.key = &frames[2], .name = name_id(slot, "hidden"), .is_hidden = true},
        {.key = &frames[3], .name = name_id(slot, "new"), .is_hidden = false}};
    log.align(standing, since);
  });
  leave(slot, frames[3]);
  leave(slot, frames[2]);
  leave(slot, frames[0]);
  capture.stop();
  const Recording recording = read(capture);
  REQUIRE(recording.events.size() == 3);
  CHECK(flags_of(recording, "stays") == 0);
  CHECK(flags_of(recording, "gone") == kFlagUnfinished);
  CHECK(flags_of(recording, "new") == kFlagEnteredBefore);
  CHECK(parent_of(recording, "new") == "stays");
  const std::size_t gone = only_row(recording, "gone");
  CHECK(recording.events.end_ns[gone] <= recording.events.start_ns[only_row(recording, "new")]);
  CHECK(all_drops(capture) == 0);
}

TEST_CASE("ops never cross frames whose bounds are not known") {
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  const FakeFrame around;
  const FakeFrame inside;
  FakeOp op;
  op.start(slot, "op");
  in_log(slot, [&](FrameLog& log) {
    const std::vector<StandingFrame> standing{
        {.key = &around, .name = name_id(slot, "around"), .is_hidden = false},
        {.key = &inside, .name = name_id(slot, "inside"), .is_hidden = false}};
    log.align(standing, ticks());
  });
  leave(slot, inside);
  op.end(slot);
  FakeOp last;
  last.start(slot, "last");
  const FakeFrame heard;
  enter(slot, heard, "heard of");
  leave(slot, heard);
  in_log(slot, [](FrameLog& log) { log.lose(); });
  last.end(slot);
  capture.stop();
  const Recording recording = read(capture);
  CHECK(recording.problems.empty());
  CHECK(parent_of(recording, "op") == "around");
  CHECK(parent_of(recording, "inside") == "op");
  CHECK(parent_of(recording, "last") == "around");
  CHECK(parent_of(recording, "heard of") == "last");
  CHECK(flags_of(recording, "around") == (kFlagEnteredBefore | kFlagUnfinished));
}

TEST_CASE("frames that begin with the recording go around its ops") {
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  record_op(slot, "early");
  FakeOp op;
  op.start(slot, "op");
  const FakeFrame around;
  const FakeFrame inside;
  in_log(slot, [&](FrameLog& log) {
    const std::uint64_t begin = log.recording().arena().header().clock_start.ticks;
    const std::vector<StandingFrame> standing{
        {.key = &around, .name = name_id(slot, "around"), .is_hidden = false},
        {.key = &inside, .name = name_id(slot, "inside"), .is_hidden = false}};
    log.align(standing, begin);
  });
  leave(slot, inside);
  op.end(slot);
  leave(slot, around);
  capture.stop();
  const Recording recording = read(capture);
  CHECK(recording.events.start_ns[only_row(recording, "around")] == recording.start_ns);
  CHECK(parent_of(recording, "early") == "around");
  CHECK(parent_of(recording, "op") == "around");
  CHECK(parent_of(recording, "inside") == "op");
}

TEST_CASE("too deep a stack and a full recording drop frames, counted") {
  Capture capture("", kMinCapBytes);
  const std::uint32_t slot = start(capture);
  const std::uint32_t name = name_id(slot, "deep");
  constexpr std::size_t kDeep = kMaxOpenFrames + 100;
  const std::vector<FakeFrame> frames(kDeep);
  for (const FakeFrame& frame : frames) {
    in_log(slot, [&](FrameLog& log) { log.enter(&frame, name, EventKind::kPython); });
  }
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    leave(slot, *frame);
  }
  CHECK(drops(capture, DropReason::kStackTooDeep) == 100);
  CHECK(drops(capture, DropReason::kUnmatchedEnd) == 0);
  const std::uint64_t recorded = capture.recorded();
  capture.stop();
  const Recording recording = read(capture);
  CHECK(recorded > 0);
  CHECK(recording.events.size() == recorded);
  CHECK(recorded + all_drops(capture) == kDeep);
  CHECK(capture.bytes().size() <= kMinCapBytes);
  for (const std::uint16_t flags : recording.events.flags) {
    CHECK(flags == 0);
  }
}

TEST_CASE("frames of threads that stand still and of those that were lost") {
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  ActiveRecording& recording = *slots[slot].recording.load();
  const FakeFrame frame;
  std::atomic<std::uint32_t> os_thread_id{0};
  std::atomic<bool> may_end{false};
  std::thread lost([&] {
    enter(slot, frame, "lost");
    os_thread_id = current_thread->os_thread_id;
    os_thread_id.notify_one();
    may_end.wait(false);
  });
  os_thread_id.wait(0);
  const std::uint64_t before = ticks();
  lose_frames(slot, os_thread_id);
  constexpr std::uint32_t kStrangerId = 4'000'000;
  const std::vector<StandingFrame> standing{
      {.key = &frame, .name = name_id(slot, "stands"), .is_hidden = false},
      {.key = &frame, .name = name_id(slot, "hidden"), .is_hidden = true}};
  record_standing_frames(slot, recording, kStrangerId, standing, before);
  may_end = true;
  may_end.notify_one();
  lost.join();
  capture.stop();
  const Recording read_back = read(capture);
  REQUIRE(read_back.events.size() == 2);
  CHECK(flags_of(read_back, "lost") == kFlagUnfinished);
  CHECK(flags_of(read_back, "stands") == (kFlagUnfinished | kFlagEnteredBefore));
  CHECK(read_back.tracks[read_back.events.track[only_row(read_back, "stands")]].thread_id == kStrangerId);
}

TEST_CASE("threads record frames while captures start and stop") {
  std::atomic<bool> may_end{false};
  std::atomic<std::uint32_t> name{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      const FakeFrame frame;
      while (!may_end) {
        for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
          ThreadState* thread = thread_of_frames(slot);
          if (thread == nullptr) {
            continue;
          }
          const HookScope scope(*thread);
          if (FrameLog* log = frame_log_of(*thread, slot); log != nullptr) {
            log->enter(&frame, name, EventKind::kPython);
            log->leave(&frame, ticks());
          }
        }
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    Capture first("", kSmallCapBytes);
    Capture second("", kSmallCapBytes);
    name = name_id(start(first), "frame");
    start(second);
    while (first.recorded() < 100) {
      std::this_thread::yield();
    }
    first.stop();
    second.stop();
    const Recording recording = read(first);
    CHECK(recording.events.size() >= 100);
    CHECK(recording.problems.empty());
  }
  may_end = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
}
