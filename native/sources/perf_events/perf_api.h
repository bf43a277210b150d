// The system calls and the one instruction that counters need, as a table, so that tests can stand in for
// the processor.
#pragma once

#include <linux/perf_event.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace torchprof::perf {

struct PerfApi {
  // perf_event_open(2) on any processor, closed on exec. Returns a descriptor, or an errno value negated.
  int (*open)(const perf_event_attr& attributes, pid_t thread, int group);
  // Bytes read, or an errno value negated.
  ssize_t (*read)(int descriptor, void* buffer, std::size_t size_bytes);
  int (*close)(int descriptor);
  // The page in which the kernel says how to read the counter without it; nullptr when there is none.
  perf_event_mmap_page* (*map_page)(int descriptor);
  void (*unmap_page)(perf_event_mmap_page* page);
  // rdpmc: the counter of that number on the processor that the calling thread runs on.
  std::uint64_t (*read_counter)(std::uint32_t number);
  // Where the kernel describes its counting units: /sys/bus/event_source/devices.
  std::string devices;
  // /proc/sys/kernel/perf_event_paranoid
  std::string paranoid;
};

[[nodiscard]] const PerfApi& system_api();

}  // namespace torchprof::perf
