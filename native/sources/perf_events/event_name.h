// What the names of events mean to perf_event_open, for names as `perf list` has them:
//
//   cycles  cache-misses  branches ...        hardware
//   L1-dcache-load-misses  LLC-loads ...      hardware, of a cache
//   page-faults  task-clock  cs ...           software
//   r01c2                                     raw: what the processor's manual says, in hexadecimal
//   cpu/event=0x3c,umask=0x1/  cpu/mem-loads/ of a unit that the kernel describes in sysfs
//
// Each may end in modifiers: `cycles:u` counts user space only, `:k` the kernel, `:h` the hypervisor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace torchprof::perf {

struct Event {
  std::uint32_t type = 0;  // perf_type_id, or the number of a unit
  std::uint64_t config = 0;
  std::uint64_t config1 = 0;
  std::uint64_t config2 = 0;
  bool in_user = true;
  bool in_kernel = true;
  bool in_hypervisor = true;
  bool has_modifiers = false;
};

// `devices`: PerfApi::devices. Throws std::invalid_argument with the cause and the way out.
[[nodiscard]] Event parse_event(std::string_view name, const std::string& devices);

}  // namespace torchprof::perf
