#include "sources/perf_events/event_name.h"

#include <linux/perf_event.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>

#include "sources/perf_events/unit_event.h"

namespace torchprof::perf {
namespace {

struct Named {
  std::string_view name;
  std::uint64_t number;
};

constexpr Named kHardware[] = {
    {"cpu-cycles", PERF_COUNT_HW_CPU_CYCLES},
    {"cycles", PERF_COUNT_HW_CPU_CYCLES},
    {"instructions", PERF_COUNT_HW_INSTRUCTIONS},
    {"cache-references", PERF_COUNT_HW_CACHE_REFERENCES},
    {"cache-misses", PERF_COUNT_HW_CACHE_MISSES},
    {"branch-instructions", PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
    {"branches", PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
    {"branch-misses", PERF_COUNT_HW_BRANCH_MISSES},
    {"bus-cycles", PERF_COUNT_HW_BUS_CYCLES},
    {"stalled-cycles-frontend", PERF_COUNT_HW_STALLED_CYCLES_FRONTEND},
    {"idle-cycles-frontend", PERF_COUNT_HW_STALLED_CYCLES_FRONTEND},
    {"stalled-cycles-backend", PERF_COUNT_HW_STALLED_CYCLES_BACKEND},
    {"idle-cycles-backend", PERF_COUNT_HW_STALLED_CYCLES_BACKEND},
    {"ref-cycles", PERF_COUNT_HW_REF_CPU_CYCLES},
};

constexpr Named kSoftware[] = {
    {"cpu-clock", PERF_COUNT_SW_CPU_CLOCK},
    {"task-clock", PERF_COUNT_SW_TASK_CLOCK},
    {"page-faults", PERF_COUNT_SW_PAGE_FAULTS},
    {"faults", PERF_COUNT_SW_PAGE_FAULTS},
    {"context-switches", PERF_COUNT_SW_CONTEXT_SWITCHES},
    {"cs", PERF_COUNT_SW_CONTEXT_SWITCHES},
    {"cpu-migrations", PERF_COUNT_SW_CPU_MIGRATIONS},
    {"migrations", PERF_COUNT_SW_CPU_MIGRATIONS},
    {"minor-faults", PERF_COUNT_SW_PAGE_FAULTS_MIN},
    {"major-faults", PERF_COUNT_SW_PAGE_FAULTS_MAJ},
    {"alignment-faults", PERF_COUNT_SW_ALIGNMENT_FAULTS},
    {"emulation-faults", PERF_COUNT_SW_EMULATION_FAULTS},
    {"cgroup-switches", 11},  // PERF_COUNT_SW_CGROUP_SWITCHES, newer than some headers
};

constexpr Named kCaches[] = {
    {"L1-dcache", PERF_COUNT_HW_CACHE_L1D}, {"L1-icache", PERF_COUNT_HW_CACHE_L1I},
    {"LLC", PERF_COUNT_HW_CACHE_LL},        {"dTLB", PERF_COUNT_HW_CACHE_DTLB},
    {"iTLB", PERF_COUNT_HW_CACHE_ITLB},     {"branch", PERF_COUNT_HW_CACHE_BPU},
    {"node", PERF_COUNT_HW_CACHE_NODE},
};

constexpr std::uint64_t cache_access(std::uint64_t operation, std::uint64_t result) {
  return operation << 8U | result << 16U;
}

constexpr Named kCacheAccesses[] = {
    {"loads", cache_access(PERF_COUNT_HW_CACHE_OP_READ, PERF_COUNT_HW_CACHE_RESULT_ACCESS)},
    {"load-misses", cache_access(PERF_COUNT_HW_CACHE_OP_READ, PERF_COUNT_HW_CACHE_RESULT_MISS)},
    {"stores", cache_access(PERF_COUNT_HW_CACHE_OP_WRITE, PERF_COUNT_HW_CACHE_RESULT_ACCESS)},
    {"store-misses", cache_access(PERF_COUNT_HW_CACHE_OP_WRITE, PERF_COUNT_HW_CACHE_RESULT_MISS)},
    {"prefetches", cache_access(PERF_COUNT_HW_CACHE_OP_PREFETCH, PERF_COUNT_HW_CACHE_RESULT_ACCESS)},
    {"prefetch-misses", cache_access(PERF_COUNT_HW_CACHE_OP_PREFETCH, PERF_COUNT_HW_CACHE_RESULT_MISS)},
};

std::optional<std::uint64_t> find(std::span<const Named> table, std::string_view name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [name](const Named& entry) { return entry.name == name; });
  return found == table.end() ? std::nullopt : std::optional(found->number);
}

std::optional<std::uint64_t> find_cache(std::string_view name) {
  for (const Named& cache : kCaches) {
    if (!name.starts_with(cache.name) || name.size() <= cache.name.size() + 1) continue;
    if (name[cache.name.size()] != '-') continue;
    const auto access = find(kCacheAccesses, name.substr(cache.name.size() + 1));
    if (access) return cache.number | *access;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> find_raw(std::string_view name) {
  constexpr int kHexadecimal = 16;
  if (name.size() < 2 || name.front() != 'r') return std::nullopt;
  std::uint64_t code = 0;
  const char* const end = name.data() + name.size();
  const auto [stopped, error] = std::from_chars(name.data() + 1, end, code, kHexadecimal);
  return error == std::errc() && stopped == end ? std::optional(code) : std::nullopt;
}

Event of_type(std::uint32_t type, std::uint64_t config) {
  Event event;
  event.type = type;
  event.config = config;
  return event;
}

Event parse_plain(std::string_view name, const std::string& devices) {
  if (const auto number = find(kHardware, name)) return of_type(PERF_TYPE_HARDWARE, *number);
  if (const auto number = find(kSoftware, name)) return of_type(PERF_TYPE_SOFTWARE, *number);
  if (const auto number = find_cache(name)) return of_type(PERF_TYPE_HW_CACHE, *number);
  if (const auto number = find_raw(name)) return of_type(PERF_TYPE_RAW, *number);
  if (const auto event = find_unit_event("cpu", name, devices)) return *event;
  throw std::invalid_argument("no event has this name; `perf list` shows those there are");
}

void apply_modifiers(Event& event, std::string_view modifiers) {
  constexpr std::string_view kKnown = "ukh";
  if (modifiers.empty() || modifiers.find_first_not_of(kKnown) != std::string_view::npos) {
    throw std::invalid_argument("unknown modifiers; u, k and h can follow a name: user, kernel, hypervisor");
  }
  event.in_user = modifiers.find('u') != std::string_view::npos;
  event.in_kernel = modifiers.find('k') != std::string_view::npos;
  event.in_hypervisor = modifiers.find('h') != std::string_view::npos;
  event.has_modifiers = true;
}

}  // namespace

Event parse_event(std::string_view name, const std::string& devices) {
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos) {
    const std::size_t colon = name.find(':');
    Event event = parse_plain(name.substr(0, colon), devices);
    if (colon != std::string_view::npos) apply_modifiers(event, name.substr(colon + 1));
    return event;
  }
  const std::size_t closing = name.find('/', slash + 1);
  if (closing == std::string_view::npos) {
    throw std::invalid_argument("a slash is missing; write unit/event=0x3c,umask=0x1/");
  }
  Event event = parse_unit_event(name.substr(0, slash), name.substr(slash + 1, closing - slash - 1), devices);
  std::string_view modifiers = name.substr(closing + 1);
  if (modifiers.starts_with(':')) modifiers.remove_prefix(1);
  if (closing + 1 < name.size()) apply_modifiers(event, modifiers);
  return event;
}

}  // namespace torchprof::perf
