#include "sources/perf_events/refusal.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace torchprof::perf {
namespace {

std::string paranoid_level(const PerfApi& api) {
  std::ifstream file(api.paranoid);
  std::string level;
  return file >> level ? level : "unknown";
}

// Not strerrorname_np: older C libraries have none.
struct Known {
  int error;
  const char* name;
};
constexpr Known kNames[] = {
    {EACCES, "EACCES"}, {EPERM, "EPERM"},           {ENOSYS, "ENOSYS"}, {ENOENT, "ENOENT"},
    {ENODEV, "ENODEV"}, {EOPNOTSUPP, "EOPNOTSUPP"}, {ENOSPC, "ENOSPC"}, {EINVAL, "EINVAL"},
    {EMFILE, "EMFILE"}, {ENFILE, "ENFILE"},         {EBUSY, "EBUSY"},   {ENOMEM, "ENOMEM"},
};

std::string name_of(int error) {
  const auto* const found = std::find_if(std::begin(kNames), std::end(kNames),
                                         [error](const Known& known) { return known.error == error; });
  return found == std::end(kNames) ? "errno " + std::to_string(error) : found->name;
}

std::string cause(int error, const Event& event, const PerfApi& api) {
  const bool is_software = event.type == PERF_TYPE_SOFTWARE;
  switch (error) {
    case EACCES:
    case EPERM:
      return "not permitted: kernel.perf_event_paranoid is " + paranoid_level(api) +
             "; set it to 1, or give the process CAP_PERFMON, and in a container allow perf_event_open in "
             "its "
             "seccomp profile";
    case ENOSYS:
      return "the kernel, or the seccomp profile of a container, has no perf_event_open; allow it there";
    case ENOENT:
    case ENODEV:
    case EOPNOTSUPP:
      return is_software
                 ? "this kernel does not count it; use a newer one"
                 : "the processor does not count it, or is a virtual one without a PMU; use a machine "
                   "with one";
    case ENOSPC:
      return "no counter of the processor is left; ask for fewer";
    case EINVAL:
      return "the kernel does not take it; `perf list` shows what it takes";
    case EMFILE:
    case ENFILE:
      return "no file handle is left; raise `ulimit -n`";
    case EBUSY:
      return "another tool has the counters to itself; stop it";
    default:
      return std::string(::strerror(error)) + "; `perf stat -e` tells whether anything can count it";
  }
}

}  // namespace

std::string refusal(int error, const Event& event, bool works_alone, const PerfApi& api) {
  return name_of(error) + ": " +
         (works_alone ? "the processor has no counter left beside those before it; ask for fewer"
                      : cause(error, event, api));
}

}  // namespace torchprof::perf
