// perf_event_open: names, refusals, groups and what a real kernel counts.
#include <doctest/doctest.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/counter_series.h"
#include "fake_counters.h"
#include "fake_torch.h"
#include "sources/perf_events/event_name.h"
#include "sources/perf_events/perf_source.h"
#include "sources/perf_events/thread_group.h"

using namespace torchprof;           // NOLINT(google-build-using-namespace)
using namespace torchprof::perf;     // NOLINT(google-build-using-namespace)
using namespace torchprof::testing;  // NOLINT(google-build-using-namespace)

namespace {

std::set<std::string> open_files() {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry, gone).string();
    if (target.find("perf_event") != std::string::npos || target.find("/task") != std::string::npos) {
      files.insert(entry.path().filename().string() + " " + target);
    }
  }
  return files;
}

// A stand-in for the kernel and its processor: opens what it is not told to refuse.
struct FakeKernel {
  struct Opened {
    std::uint64_t config;
    int group;
    bool in_kernel;
  };
  std::map<std::uint64_t, int> refusals;  // errno values by config
  std::size_t counters = 100;             // of its processor
  bool forbids_kernel = false;
  std::map<int, Opened> open;
  perf_event_mmap_page page{};
  std::uint64_t counted = 0;  // by each
  std::uint64_t enabled_ns = 1000;
  std::uint64_t running_ns = 1000;
  int reads = 0;

  int open_event(const perf_event_attr& attributes, int group) {
    if (const auto refusal = refusals.find(attributes.config); refusal != refusals.end())
      return -refusal->second;
    if (forbids_kernel && attributes.exclude_kernel == 0) return -EACCES;
    if (group >= 0 && open.size() >= counters) return -EINVAL;
    const int descriptor = open.empty() ? 1000 : open.rbegin()->first + 1;
    open[descriptor] = {attributes.config, group, attributes.exclude_kernel == 0};
    return descriptor;
  }
};
FakeKernel* kernel = nullptr;

PerfApi fake_api() {
  return {.open = [](const perf_event_attr& attributes, pid_t,
                     int group) { return kernel->open_event(attributes, group); },
          .read = [](int, void* buffer, std::size_t) -> ssize_t {
            ++kernel->reads;
            auto* const words = static_cast<std::uint64_t*>(buffer);
            words[0] = kernel->open.size();
            words[1] = kernel->enabled_ns;
            words[2] = kernel->running_ns;
            for (std::size_t i = 0; i < kernel->open.size(); ++i) words[3 + i] = kernel->counted;
            return static_cast<ssize_t>((3 + kernel->open.size()) * sizeof(std::uint64_t));
          },
          .close = [](int descriptor) { return kernel->open.erase(descriptor) == 1 ? 0 : -1; },
          .map_page = [](int) { return &kernel->page; },
          .unmap_page = [](perf_event_mmap_page*) {},
          .read_counter = [](std::uint32_t) { return kernel->counted; },
          .devices = "/nonexistent",
          .paranoid = "/nonexistent"};
}

struct WithFakeKernel {
  FakeKernel fake;
  PerfApi api = fake_api();
  WithFakeKernel() { kernel = &fake; }
  ~WithFakeKernel() { kernel = nullptr; }
  WithFakeKernel(const WithFakeKernel&) = delete;
  WithFakeKernel& operator=(const WithFakeKernel&) = delete;
};

bool works_here(const char* name) { return choose_counters({name}).states[0].counts; }

std::string error_of(const std::string& name, const std::string& devices) {
  try {
    static_cast<void>(parse_event(name, devices));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

struct Folder {
  std::filesystem::path path = [] {
    std::string name = (std::filesystem::temp_directory_path() / "torchprof-XXXXXX").string();
    return std::filesystem::path(::mkdtemp(name.data()));
  }();
  ~Folder() { std::filesystem::remove_all(path); }
  Folder() = default;
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((path / file).parent_path());
    std::ofstream(path / file) << text << '\n';
  }
};

// Touches that many pages for the first time.
void fault(std::size_t pages) {
  const std::size_t page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const memory =
      ::mmap(nullptr, pages * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  ::madvise(memory, pages * page_bytes, MADV_NOHUGEPAGE);
  for (std::size_t i = 0; i < pages; ++i) static_cast<volatile char*>(memory)[i * page_bytes] = 1;
  ::munmap(memory, pages * page_bytes);
}

std::int64_t faults_of_thread() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

void start_real(Capture& capture, const std::vector<std::string>& names,
                CounterScope scope = CounterScope::kUserSpans) {
  ChosenCounters chosen = choose_counters(names);
  REQUIRE(chosen.source != nullptr);
  capture.start_counters(std::move(chosen.source), chosen.names, scope);
}

}  // namespace

TEST_CASE("names mean what `perf list` says") {
  const auto check = [](const char* name, std::uint32_t type, std::uint64_t config) {
    CAPTURE(std::string(name));
    const Event event = parse_event(name, "/nonexistent");
    CHECK(event.type == type);
    CHECK(event.config == config);
    CHECK((event.in_user && event.in_kernel && event.in_hypervisor));
  };
  check("cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);
  check("cpu-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);
  check("instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
  check("branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES);
  check("page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
  check("cs", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES);
  check("L1-dcache-loads", PERF_TYPE_HW_CACHE, 0);
  check("L1-dcache-load-misses", PERF_TYPE_HW_CACHE, 0x10000);
  check("LLC-store-misses", PERF_TYPE_HW_CACHE, 0x10102);
  check("dTLB-prefetches", PERF_TYPE_HW_CACHE, 0x203);
  check("branch-load-misses", PERF_TYPE_HW_CACHE, 0x10005);
  check("r01c2", PERF_TYPE_RAW, 0x1c2);
  check("rFFFFffff0000", PERF_TYPE_RAW, 0xffffffff0000);
}

TEST_CASE("modifiers say where to count") {
  const Event user = parse_event("cycles:u", "/nonexistent");
  CHECK((user.in_user && !user.in_kernel && !user.in_hypervisor));
  const Event both = parse_event("page-faults:uk", "/nonexistent");
  CHECK((both.in_user && both.in_kernel && !both.in_hypervisor));
  const perf_event_attr attributes = attributes_of(user);
  CHECK((attributes.exclude_user == 0 && attributes.exclude_kernel == 1 && attributes.exclude_hv == 1));
}

TEST_CASE("what is no name of an event says so") {
  for (const char* name : {"", "cycle", "L1-dcache", "L1-dcache-", "L1-dcache-load", "r", "rxyz",
                           "r11112222333344445", "r-1", "cycles cycles"}) {
    CAPTURE(std::string(name));
    CHECK(error_of(name, "/nonexistent").starts_with("no event has this name"));
  }
  for (const char* name : {"cycles:", "cycles:x", "cycles:u:k"}) {
    CAPTURE(std::string(name));
    CHECK(error_of(name, "/nonexistent").starts_with("unknown modifiers"));
  }
  CHECK(error_of("cpu/event=1", "/nonexistent").starts_with("a slash is missing"));
  CHECK(error_of("cpu/event=1/", "/nonexistent").starts_with("this machine has no counting unit \"cpu\""));
  CHECK(error_of("../etc/event=1/", "/").starts_with("this machine has no counting unit"));
}

TEST_CASE("events of units are put together as the kernel describes") {
  const Folder devices;
  devices.write("cpu/type", "4");
  devices.write("cpu/format/event", "config:0-7,32-35");
  devices.write("cpu/format/umask", "config:8-15");
  devices.write("cpu/format/inv", "config:23");
  devices.write("cpu/format/ldlat", "config1:0-15");
  devices.write("cpu/format/all", "config2:0-63");
  devices.write("cpu/format/odd", "attr:0-3");
  devices.write("cpu/format/broken", "config:9-3");
  devices.write("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3");
  devices.write("cpu/events/loop", "loop");
  const std::string path = devices.path.string();

  const Event plain = parse_event("cpu/event=0x3c,umask=0x1/", path);
  CHECK(plain.type == 4);
  CHECK(plain.config == 0x13c);
  const Event wide = parse_event("cpu/event=0x1a2,inv,ldlat=30,all=0xffffffffffffffff/u", path);
  CHECK(wide.config == 0x1'0080'00a2);
  CHECK(wide.config1 == 30);
  CHECK(wide.config2 == ~std::uint64_t{0});
  CHECK((wide.in_user && !wide.in_kernel));
  CHECK(parse_event("cpu/config=0x12,config1=3/", path).config == 0x12);
  for (const char* name : {"mem-loads", "cpu/mem-loads/", "cpu/mem-loads/:u"}) {
    CAPTURE(std::string(name));
    const Event named = parse_event(name, path);
    CHECK(named.config == 0x1cd);
    CHECK(named.config1 == 3);
  }
  CHECK(parse_event("cpu/mem-loads,ldlat=9/", path).config1 == 9);

  const auto refused = [&path](const char* name, const char* why) {
    CAPTURE(std::string(name));
    CHECK(error_of(name, path).starts_with(why));
  };
  refused("cpu/nothing=1/", "the unit has no term or event nothing");
  refused("cpu/nothing/", "the unit has no term or event nothing");
  refused("cpu/umask=0x100/", "the value of umask is too large");
  refused("cpu/umask=x/", "\"x\" is no value of umask");
  refused("cpu/odd=1/", "the term odd goes where we cannot put it");
  refused("cpu/broken=1/", "the term broken has a format that we do not know");
  refused("cpu/../type/", "\"..\" is no term");
  refused("cpu/loop/", "the unit has no term or event loop");
  refused("gpu/event=1/", "this machine has no counting unit \"gpu\"");
}

TEST_CASE("a counter that is refused is left out with the reason, and the others count") {
  WithFakeKernel with;
  with.fake.refusals = {{PERF_COUNT_HW_CPU_CYCLES, ENOENT},
                        {PERF_COUNT_HW_CACHE_MISSES, EACCES},
                        {PERF_COUNT_HW_BUS_CYCLES, ENOSYS},
                        {PERF_COUNT_HW_BRANCH_MISSES, 123}};
  const ChosenCounters chosen = choose_counters({"cycles", "instructions", "cache-misses", "nonsense",
                                                 "branches", "bus-cycles", "instructions", "branch-misses"},
                                                with.api);
  CHECK(chosen.names == std::vector<std::string>{"instructions", "branches"});
  REQUIRE(chosen.states.size() == 7);
  CHECK(chosen.states[0].remark ==
        "ENOENT: the processor does not count it, or is a virtual one without a PMU; use a machine with one");
  CHECK(chosen.states[2].remark ==
        "EACCES: not permitted: kernel.perf_event_paranoid is unknown; set it to 1, or give the process "
        "CAP_PERFMON, and in a container allow perf_event_open in its seccomp profile");
  CHECK(chosen.states[3].remark.starts_with("no event has this name"));
  CHECK(chosen.states[5].remark.starts_with("ENOSYS: the kernel, or the seccomp profile"));
  CHECK(chosen.states[6].remark.starts_with("errno 123: "));
  CHECK(with.fake.open.empty());

  const auto counters = chosen.source->open(1);
  REQUIRE(counters != nullptr);
  REQUIRE(with.fake.open.size() == 2);
  CHECK(with.fake.open.begin()->second.group == -1);
  CHECK(with.fake.open.rbegin()->second.group == with.fake.open.begin()->first);
}

TEST_CASE("more counters than the processor has are told from those it does not know") {
  WithFakeKernel with;
  with.fake.counters = 2;
  const ChosenCounters chosen = choose_counters({"cycles", "instructions", "branches"}, with.api);
  CHECK(chosen.names == std::vector<std::string>{"cycles", "instructions"});
  CHECK(chosen.states[2].remark ==
        "EINVAL: the processor has no counter left beside those before it; ask for fewer");

  std::vector<std::string> many;
  for (std::size_t i = 0; i <= kMaxCounters; ++i) many.push_back(std::string("r").append(std::to_string(i)));
  with.fake.counters = 100;
  const ChosenCounters all = choose_counters(many, with.api);
  CHECK(all.names.size() == kMaxCounters);
  CHECK(all.states.back().remark == "at most 16 counters count at once; ask for fewer");
}

TEST_CASE("where the kernel may not be counted user space is, unless that would always be 0") {
  WithFakeKernel with;
  with.fake.forbids_kernel = true;
  const ChosenCounters chosen =
      choose_counters({"cycles", "context-switches", "page-faults:k", "faults"}, with.api);
  CHECK(chosen.names == std::vector<std::string>{"cycles", "faults"});
  CHECK(chosen.states[0].remark == "user space only: the kernel is not permitted to be counted");
  CHECK(chosen.states[1].remark.starts_with("EACCES: not permitted"));
  CHECK(chosen.states[2].remark.starts_with("EACCES: not permitted"));
  const auto counters = chosen.source->open(1);
  for (const auto& [descriptor, opened] : with.fake.open) CHECK(!opened.in_kernel);
}

TEST_CASE("counters are read without the kernel where it lets us, and says that they are exact") {
  WithFakeKernel with;
  with.fake.page.cap_user_rdpmc = 1;
  with.fake.page.index = 1;
  with.fake.page.pmc_width = 48;
  with.fake.page.offset = 5000;
  with.fake.page.time_enabled = with.fake.page.time_running = 1000;
  const ChosenCounters chosen = choose_counters({"cycles", "instructions"}, with.api);
  CHECK(chosen.reads_without_kernel);
  const auto counters = chosen.source->open(1);
  CounterReading reading;

  with.fake.counted = 7;
  CHECK(counters->read_own(reading));
  CHECK(reading.values[1] == 5007);
  with.fake.counted = 0xffff'ffff'ffff;  // -1 in 48 bits
  CHECK(counters->read_own(reading));
  CHECK(reading.values[0] == 4999);
  CHECK(with.fake.reads == 0);

  SUBCASE("the counter is not on the processor") { with.fake.page.index = 0; }
  SUBCASE("the counters had to share") { with.fake.page.time_running = 500; }
  with.fake.counted = 42;
  CHECK(counters->read_own(reading));
  CHECK(reading.values[0] == (with.fake.reads == 1 ? 42 : 5042));
  CHECK(counters->read(reading));
  CHECK(with.fake.reads >= 1);
}

TEST_CASE("without the capability the kernel is asked") {
  WithFakeKernel with;
  with.fake.counted = 3;
  const ChosenCounters chosen = choose_counters({"cycles"}, with.api);
  CHECK(!chosen.reads_without_kernel);
  const auto counters = chosen.source->open(1);
  CounterReading reading;
  CHECK(counters->read_own(reading));
  CHECK(reading.values[0] == 3);
  CHECK(with.fake.reads == 1);
}

TEST_CASE("page faults of a span agree with the system's") {
  if (!works_here("page-faults")) return;
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  start_real(capture, {"page-faults", "no-such-event", "minor-faults"}, CounterScope::kOps);
  FakeOp op;
  const std::int64_t before = faults_of_thread();
  op.start(slot, "op");
  fault(5000);
  op.end(slot);
  const std::int64_t after = faults_of_thread();
  capture.stop();
  const Recording recording = read(capture);
  const std::vector<double> faults = values_of(recording, "page-faults", 0);
  REQUIRE(faults.size() == 1);
  CHECK(faults[0] >= 5000);
  CHECK(faults[0] <= static_cast<double>(after - before));
  CHECK(values_of(recording, "minor-faults", 0) == faults);
}

TEST_CASE("a thread that has ended has left what it counted") {
  if (!works_here("page-faults")) return;
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  start_real(capture, {"page-faults"});
  std::thread([slot] {
    record_op(slot, "op");
    fault(3000);
  }).join();
  capture.stop();
  double most = 0;
  for (const double value : values_of(read(capture), "page-faults", -1)) most = std::max(most, value);
  CHECK(most >= 3000);
}

TEST_CASE("a hundred captures leave no handle behind") {
  if (!works_here("task-clock")) return;
  const std::set<std::string> before = open_files();
  for (int i = 0; i < 100; ++i) {
    Capture capture("", kSmallCapBytes);
    const std::uint32_t slot = start(capture);
    start_real(capture, {"task-clock", "page-faults"});
    if (i == 50) CHECK(open_files().size() > before.size());
    record_op(slot, "op");
    std::thread([slot] { record_op(slot, "op"); }).join();
    capture.stop();
  }
  CHECK(open_files() == before);
}

TEST_CASE("the child of a fork has no counters, the parent keeps its own") {
  if (!works_here("page-faults")) return;
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  start_real(capture, {"page-faults"}, CounterScope::kOps);
  record_op(slot, "before");
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    record_op(slot, "in the child");
    capture.begin_step({.number = 1});
    capture.stop_counters();
    ::_exit(open_files().empty() ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  FakeOp op;
  op.start(slot, "after");
  fault(100);
  op.end(slot);
  capture.stop();
  const Recording recording = read(capture);
  const std::vector<double> faults =
      values_of(recording, "page-faults", static_cast<std::int64_t>(only_row(recording, "after")));
  REQUIRE(faults.size() == 1);
  CHECK(faults[0] >= 100);
}

TEST_CASE("threads beyond the limit on handles are not counted; ops are recorded") {
  if (!works_here("task-clock")) return;
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  start_real(capture, {"task-clock"});
  const rlimit none{.rlim_cur = 3, .rlim_max = limit.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  std::thread([slot] { record_op(slot, "op"); }).join();
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  capture.stop();
  CHECK(drops(capture, DropReason::kNotCounted) >= 1);  // a sanitizer starts a thread of its own meanwhile
  CHECK(count_named(read(capture), "op") == 1);
}
