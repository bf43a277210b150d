// Files, full disks, killed processes, forks: what needs a process of its own runs in a child.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "fake_torch.h"

using namespace torchprof;           // NOLINT(google-build-using-namespace)
using namespace torchprof::testing;  // NOLINT(google-build-using-namespace)
namespace fs = std::filesystem;

namespace {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (fs::temp_directory_path() / "torchprof-test-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryDirectory() { fs::remove_all(path_); }
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Runs `body` in a forked child and returns its exit status; -signal when it was killed.
template <typename Body>
int in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(body());
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

std::size_t open_files() {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

std::size_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmRSS:", 0) == 0) {
      return std::stoul(line.substr(6));
    }
  }
  return 0;
}

}  // namespace

TEST_CASE("a recording file is private, as large as what it holds, and read back whole") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("run.tprof");
  Capture capture(path, kCapBytes);
  if (!capture.fallback_reason().empty()) {
    MESSAGE("not tested here: " << capture.fallback_reason());
    return;
  }
  const std::uint32_t slot = start(capture);
  for (int i = 0; i < 1'000; ++i) {
    record_op(slot, "op");
  }
  capture.stop();
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777U) == 0600U);
  CHECK(static_cast<std::size_t>(status.st_size) == capture.bytes().size());
  CHECK(static_cast<std::uint64_t>(status.st_size) < 20 * kGranuleBytes);
  const Recording recording = open_recording(path);
  CHECK(recording.events.size() == 1'000);
  CHECK(recording.stopped);
  CHECK(recording.problems.empty());
}

TEST_CASE("a file that another capture holds is replaced, not overwritten") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("run.tprof");
  Capture first(path, kSmallCapBytes);
  record_op(start(first), "first");
  Capture second(path, kSmallCapBytes);
  record_op(start(second), "second");
  first.stop();
  second.stop();
  CHECK(count_named(read(first), "first") == 1);
  CHECK(count_named(read(second), "second") == 1);
}

TEST_CASE("links, pipes and missing directories are refused with the path in the message") {
  const TemporaryDirectory directory;
  const std::string target = directory.file("target");
  std::ofstream(target) << "precious";
  fs::create_symlink(target, directory.file("link"));
  REQUIRE(::mkfifo(directory.file("pipe").c_str(), 0600) == 0);
  for (const char* name : {"link", "pipe", "missing/run.tprof", "."}) {
    const std::string path = directory.file(name);
    CAPTURE(path);
    try {
      const Capture capture(path, kSmallCapBytes);
      FAIL("no error");
    } catch (const std::system_error& error) {
      CHECK(std::string(error.what()).find(path) != std::string::npos);
    }
  }
  CHECK(fs::file_size(target) == 8);
}

TEST_CASE("a killed process leaves a recording that opens, open ops unfinished") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("run.tprof");
  const int status = in_child([&] {
    Capture capture(path, kSmallCapBytes);
    const std::uint32_t slot = start(capture);
    FakeOp outer;
    outer.start(slot, "outer");
    for (int i = 0; i < 2'000; ++i) {
      record_op(slot, "op");
    }
    return ::raise(SIGKILL);
  });
  REQUIRE(status == -SIGKILL);
  if (!fs::exists(path)) {
    return;  // the file system keeps no promise of space: recorded in memory
  }
  const Recording recording = open_recording(path);
  CHECK_FALSE(recording.stopped);
  CHECK(recording.events.size() == 2'001);
  CHECK(recording.events.flags[only_row(recording, "outer")] == kFlagUnfinished);
}

TEST_CASE("a file size limit drops and counts; no signal, no loss of what was recorded") {
  const TemporaryDirectory directory;
  const int status = in_child([&] {
    const rlimit limit{.rlim_cur = 1U << 20U, .rlim_max = 1U << 20U};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    Capture capture(directory.file("run.tprof"), kCapBytes);
    if (!capture.fallback_reason().empty()) return 0;
    const std::uint32_t slot = start(capture);
    constexpr std::size_t kOps = 100'000;
    for (std::size_t i = 0; i < kOps; ++i) {
      record_op(slot, "op");
    }
    capture.stop();
    const std::uint64_t dropped = drops(capture, DropReason::kDiskFull);
    const std::size_t recorded = open_recording(directory.file("run.tprof")).events.size();
    return dropped != 0 && recorded > 10'000 && recorded + dropped == kOps ? 0 : 2;
  });
  CHECK(status == 0);
}

TEST_CASE("a full disk drops and counts; the process lives") {
  const TemporaryDirectory directory;
  if (::mount("tmpfs", directory.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
    MESSAGE("not tested here: only root may mount a small file system");
    return;
  }
  {
    Capture capture(directory.file("run.tprof"), kCapBytes);
    const std::uint32_t slot = start(capture);
    constexpr std::size_t kOps = 100'000;
    for (std::size_t i = 0; i < kOps; ++i) {
      record_op(slot, "op");
    }
    capture.stop();
    const Recording recording = read(capture);
    CHECK(drops(capture, DropReason::kDiskFull) > 0);
    CHECK(recording.events.size() > 10'000);
    CHECK(recording.events.size() + drops(capture, DropReason::kDiskFull) == kOps);
  }
  ::umount(directory.path().c_str());
}

#if !defined(__SANITIZE_THREAD__)  // it supports no threads after a fork of a threaded process

TEST_CASE("a forked child starts empty, records on its own and leaves the parent's recording alone") {
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  FakeOp outer;
  outer.start(slot, "parent");
  const int status = in_child([&] {
    record_op(slot, "child");
    outer.end(slot);
    capture.stop();
    if (!capture.lost_in_fork() || capture.recorded() != 0 || all_drops(capture) != 0) return 1;
    Capture own("", kSmallCapBytes);
    const std::uint32_t own_slot = start(own);
    record_op(own_slot, "own");
    std::thread([&] { record_op(own_slot, "own thread"); }).join();
    own.stop();
    const Recording recording = read(own);
    return recording.events.size() == 2 && recording.tracks.size() == 2 && all_drops(own) == 0 ? 0 : 2;
  });
  CHECK(status == 0);
  outer.end(slot);
  capture.stop();
  const Recording recording = read(capture);
  REQUIRE(recording.events.size() == 1);
  CHECK(recording.events.flags[0] == 0);
  CHECK(all_drops(capture) == 0);
}

TEST_CASE("a finished recording can be read in a forked child") {
  Capture capture("", kSmallCapBytes);
  record_op(start(capture), "op");
  capture.stop();
  CHECK(in_child([&] { return read(capture).events.size() == 1 ? 0 : 1; }) == 0);
}

#if !defined(__SANITIZE_ADDRESS__)  // its allocator may hold a lock at the fork, for good in the child
TEST_CASE("forks while threads record: 300 children come and go, no op is lost") {
  constexpr int kForks = 300;
  Capture capture("", 256ULL << 20U);
  const std::uint32_t slot = start(capture);
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> ops{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      while (!done.load()) {
        for (int i = 0; i < 20; ++i) {
          record_op(slot, "op");
        }
        ops.fetch_add(20);
        std::this_thread::yield();
      }
    });
  }
  int failed = 0;
  for (int i = 0; i < kForks; ++i) {
    failed += in_child([&] {
      if (i % 10 != 0) return 0;
      Capture own("", kSmallCapBytes);
      record_op(start(own), "own");
      own.stop();
      return read(own).events.size() == 1 ? 0 : 1;
    });
  }
  done.store(true);
  for (std::thread& thread : threads) {
    thread.join();
  }
  capture.stop();
  CHECK(failed == 0);
  CHECK(capture.recorded() + all_drops(capture) == ops.load());
  CHECK(drops(capture, DropReason::kUnmatchedEnd) == 0);
}
#endif

#endif

TEST_CASE("a hundred captures in a row leave no file open and no memory behind") {
  const TemporaryDirectory directory;
  const auto capture_once = [&](const std::string& path) {
    Capture capture(path, kCapBytes);
    const std::uint32_t slot = start(capture);
    for (int i = 0; i < 20'000; ++i) {
      record_op(slot, "op");
    }
    std::thread([&] { record_op(slot, "thread"); }).join();
    capture.stop();
  };
  constexpr int kWarmUp = 10;
  for (int i = 0; i < kWarmUp; ++i) {
    capture_once(i % 2 == 0 ? "" : directory.file("run.tprof"));
  }
  const std::size_t files = open_files();
  const std::size_t memory_kib = resident_kib();
  for (int i = 0; i < 100; ++i) {
    capture_once(i % 2 == 0 ? "" : directory.file("run.tprof"));
  }
  CHECK(open_files() == files);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they keep freed memory
  CHECK(resident_kib() < memory_kib + 2'048);
#else
  static_cast<void>(memory_kib);
#endif
}
