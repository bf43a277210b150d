#include "sources/perf_events/thread_group.h"

#include <errno.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <new>

#include "core/private_files.h"

namespace torchprof::perf {
namespace {

// PERF_FORMAT_GROUP with both times.
struct GroupReading {
  std::uint64_t count;
  std::uint64_t enabled_ns;
  std::uint64_t running_ns;
  std::array<std::uint64_t, kMaxCounters> values;
};

// What the kernel changes while we read.
template <typename T>
T look(const T& field) noexcept {
  return std::atomic_ref(const_cast<T&>(field)).load(std::memory_order_relaxed);
}

struct PageReading {
  std::uint64_t value;
  std::uint64_t enabled_ns;
  std::uint64_t running_ns;
};

// As linux/perf_event.h describes. False when the counter is not on the processor now.
bool read_page(const perf_event_mmap_page& page, const PerfApi& api, PageReading& reading) noexcept {
  std::uint32_t sequence = 0;
  do {
    sequence = look(page.lock);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    const std::uint32_t index = look(page.index);
    if (page.cap_user_rdpmc == 0 || index == 0) return false;
    const unsigned unused_bits = 64U - look(page.pmc_width);
    const std::uint64_t counted = api.read_counter(index - 1) << unused_bits;
    reading.value = static_cast<std::uint64_t>(look(page.offset)) +
                    static_cast<std::uint64_t>(static_cast<std::int64_t>(counted) >> unused_bits);
    reading.enabled_ns = look(page.time_enabled);
    reading.running_ns = look(page.time_running);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } while (look(page.lock) != sequence);
  return true;
}

}  // namespace

perf_event_attr attributes_of(const Event& event) noexcept {
  perf_event_attr attributes{};
  attributes.size = sizeof(attributes);
  attributes.type = event.type;
  attributes.config = event.config;
  attributes.config1 = event.config1;
  attributes.config2 = event.config2;
  attributes.read_format =
      PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  attributes.exclude_user = event.in_user ? 0 : 1;
  attributes.exclude_kernel = event.in_kernel ? 0 : 1;
  attributes.exclude_hv = event.in_hypervisor ? 0 : 1;
  return attributes;
}

ThreadGroup::~ThreadGroup() {
  unmap_pages();
  // The leader last: without it each of the others would go on by itself.
  std::for_each(descriptors_.rbegin(), descriptors_.rend(),
                [this](int descriptor) { close_private(descriptor, api_.close); });
}

int ThreadGroup::add(const Event& event, pid_t thread) noexcept {
  if (descriptors_.size() == kMaxCounters) return ENOSPC;
  try {
    descriptors_.reserve(descriptors_.size() + 1);
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
  const perf_event_attr attributes = attributes_of(event);
  const int leader = descriptors_.empty() ? -1 : descriptors_.front();
  const int descriptor = open_private([&]() noexcept { return api_.open(attributes, thread, leader); });
  if (descriptor < 0) return -descriptor;
  descriptors_.push_back(descriptor);
  return 0;
}

void ThreadGroup::map_pages() noexcept {
  try {
    pages_.reserve(descriptors_.size());
  } catch (const std::bad_alloc&) {
    return;
  }
  for (const int descriptor : descriptors_) {
    perf_event_mmap_page* const page = api_.map_page(descriptor);
    if (page != nullptr) pages_.push_back(page);
    if (page == nullptr || page->cap_user_rdpmc == 0) {
      unmap_pages();
      return;
    }
  }
}

void ThreadGroup::unmap_pages() noexcept {
  for (perf_event_mmap_page* const page : pages_) api_.unmap_page(page);
  pages_.clear();
}

bool ThreadGroup::read(CounterReading& reading) noexcept {
  GroupReading group{};
  const ssize_t size_bytes = api_.read(descriptors_.front(), &group, sizeof(group));
  if (size_bytes < 0 || group.count != descriptors_.size()) return false;
  reading = {.values = group.values, .enabled_ns = group.enabled_ns, .running_ns = group.running_ns};
  return true;
}

bool ThreadGroup::read_own(CounterReading& reading) noexcept {
  return (!pages_.empty() && read_pages(reading)) || read(reading);
}

bool ThreadGroup::read_pages(CounterReading& reading) const noexcept {
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    PageReading page{};
    if (!read_page(*pages_[i], api_, page)) return false;
    // The times are of the last switch to the thread. They tell whether the group ever had to wait for its
    // turn; only then do they matter, and the kernel is asked.
    if (page.enabled_ns != page.running_ns) return false;
    reading.values[i] = page.value;
    reading.enabled_ns = reading.running_ns = page.enabled_ns;
  }
  return true;
}

}  // namespace torchprof::perf
