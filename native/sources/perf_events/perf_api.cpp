#include "sources/perf_events/perf_api.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace torchprof::perf {
namespace {

int open(const perf_event_attr& attributes, pid_t thread, int group) {
  const long descriptor =
      ::syscall(SYS_perf_event_open, &attributes, thread, -1, group, PERF_FLAG_FD_CLOEXEC);
  return descriptor < 0 ? -errno : static_cast<int>(descriptor);
}

ssize_t read(int descriptor, void* buffer, std::size_t size_bytes) {
  const ssize_t done = ::read(descriptor, buffer, size_bytes);
  return done < 0 ? -errno : done;
}

std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

perf_event_mmap_page* map_page(int descriptor) {
  void* const page = ::mmap(nullptr, page_bytes(), PROT_READ, MAP_SHARED, descriptor, 0);
  return page == MAP_FAILED ? nullptr : static_cast<perf_event_mmap_page*>(page);
}

void unmap_page(perf_event_mmap_page* page) { ::munmap(page, page_bytes()); }

// Elsewhere the kernel offers no page with cap_user_rdpmc that we know how to use.
std::uint64_t read_counter([[maybe_unused]] std::uint32_t number) {
#if defined(__x86_64__)
  return static_cast<std::uint64_t>(__rdpmc(static_cast<int>(number)));
#else
  return 0;
#endif
}

#if defined(__x86_64__)
constexpr auto kMapPage = map_page;
#else
constexpr decltype(PerfApi::map_page) kMapPage = [](int) -> perf_event_mmap_page* { return nullptr; };
#endif

}  // namespace

const PerfApi& system_api() {
  static const PerfApi* const api = new PerfApi{.open = open,
                                                .read = read,
                                                .close = ::close,
                                                .map_page = kMapPage,
                                                .unmap_page = unmap_page,
                                                .read_counter = read_counter,
                                                .devices = "/sys/bus/event_source/devices",
                                                .paranoid = "/proc/sys/kernel/perf_event_paranoid"};
  return *api;
}

}  // namespace torchprof::perf
