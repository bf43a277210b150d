#include "core/allocation_reader.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/innermost_events.h"

namespace torchprof {
namespace {

std::int64_t to_signed(std::uint64_t size_bytes) {
  return static_cast<std::int64_t>(
      std::min<std::uint64_t>(size_bytes, std::numeric_limits<std::int64_t>::max()));
}

// What of one device is allocated at the moment, as far as it is known. Sums are unsigned: those of a damaged
// file may wrap.
class DeviceMemory {
 public:
  void allocate(std::uint64_t address, std::uint64_t size_bytes) {
    const auto [block, is_new] = live_.try_emplace(address, size_bytes);
    if (!is_new) allocated_bytes_ -= std::exchange(block->second, size_bytes);
    allocated_bytes_ += size_bytes;
  }

  // The size of the block; none of an unknown one.
  std::optional<std::uint64_t> free(std::uint64_t address) {
    const auto block = live_.find(address);
    if (block == live_.end()) return std::nullopt;
    const std::uint64_t size_bytes = block->second;
    live_.erase(block);
    allocated_bytes_ -= size_bytes;
    return size_bytes;
  }

  void reserve(std::uint64_t size_bytes) {
    reserved_bytes_ += size_bytes;
    is_reserved_known_ = true;
  }
  void release(std::uint64_t size_bytes) { reserved_bytes_ -= std::min(size_bytes, reserved_bytes_); }

  [[nodiscard]] std::int64_t allocated_bytes() const { return static_cast<std::int64_t>(allocated_bytes_); }
  // -1 = not known.
  [[nodiscard]] std::int64_t reserved_bytes() const {
    return is_reserved_known_ ? static_cast<std::int64_t>(reserved_bytes_) : -1;
  }

 private:
  std::unordered_map<std::uint64_t, std::uint64_t> live_;  // size by address
  std::uint64_t allocated_bytes_ = 0;
  std::uint64_t reserved_bytes_ = 0;
  bool is_reserved_known_ = false;
};

std::vector<std::int64_t> events_of(const std::vector<Allocation>& allocations, const EventTable& events) {
  std::vector<std::uint64_t> order(allocations.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::uint64_t a, std::uint64_t b) {
    return allocations[a].track < allocations[b].track;
  });
  std::vector<TrackMoment> moments;
  moments.reserve(allocations.size());
  for (const std::uint64_t index : order) {
    moments.push_back({.track = allocations[index].track, .time_ns = allocations[index].time_ns});
  }
  const std::vector<std::int64_t> innermost = innermost_events(events, moments);
  std::vector<std::int64_t> by_allocation(allocations.size());
  for (std::size_t place = 0; place < order.size(); ++place) by_allocation[order[place]] = innermost[place];
  return by_allocation;
}

}  // namespace

std::vector<Allocation> read_allocations(std::span<const std::byte> file, const std::vector<Chunk>& chunks,
                                         TimeReader& times, TrackReader& tracks) {
  std::vector<const Chunk*> allocation_chunks;
  std::uint64_t count = 0;
  for (const Chunk& chunk : chunks) {
    if (chunk.kind != ChunkKind::kAllocations || chunk.count == 0) continue;
    allocation_chunks.push_back(&chunk);
    count += chunk.count;
  }
  // What a thread did within one ns stays in its order.
  std::stable_sort(allocation_chunks.begin(), allocation_chunks.end(), [](const Chunk* a, const Chunk* b) {
    return std::tie(a->thread, a->sequence) < std::tie(b->thread, b->sequence);
  });
  std::vector<Allocation> allocations;
  allocations.reserve(count);
  for (const Chunk* chunk : allocation_chunks) {
    const std::uint32_t track = tracks.of_thread(chunk->thread);
    for (const AllocationRecord& record : records_of<AllocationRecord>(file, *chunk)) {
      allocations.push_back({.time_ns = times.unix_ns(record.time_ticks),
                             .address = record.address,
                             .size_bytes = record.size_bytes,
                             .track = track,
                             .device = record.device,
                             .device_type = record.device_type,
                             .action = static_cast<AllocationAction>(record.action)});
    }
  }
  std::stable_sort(allocations.begin(), allocations.end(),
                   [](const Allocation& a, const Allocation& b) { return a.time_ns < b.time_ns; });
  return allocations;
}

std::vector<MemoryRecord> memory_records(const std::vector<Allocation>& allocations,
                                         const EventTable& events) {
  const std::vector<std::int64_t> event = events_of(allocations, events);
  std::unordered_map<std::uint64_t, DeviceMemory> devices;
  std::vector<MemoryRecord> records;
  records.reserve(allocations.size());
  for (std::size_t index = 0; index < allocations.size(); ++index) {
    const Allocation& allocation = allocations[index];
    const std::uint64_t device_key =
        std::uint64_t{allocation.device_type} << 32U | static_cast<std::uint32_t>(allocation.device);
    DeviceMemory& memory = devices[device_key];
    MemoryRecord record{};
    switch (allocation.action) {
      case AllocationAction::kAllocated:
        memory.allocate(allocation.address, allocation.size_bytes);
        record.size_bytes = to_signed(allocation.size_bytes);
        break;
      case AllocationAction::kFreed: {
        const std::optional<std::uint64_t> freed_bytes = memory.free(allocation.address);
        record.size_bytes = -to_signed(freed_bytes.value_or(0));
        record.flags = freed_bytes ? kMemoryFree : kMemoryFree | kMemoryBeforeCapture;
        break;
      }
      case AllocationAction::kOutOfMemory:
        record.size_bytes = to_signed(allocation.size_bytes);
        record.flags = kMemoryOutOfMemory;
        break;
      case AllocationAction::kSegmentReserved:
        memory.reserve(allocation.size_bytes);
        continue;
      case AllocationAction::kSegmentReleased:
        memory.release(allocation.size_bytes);
        continue;
      default:
        continue;
    }
    record.time = static_cast<std::uint64_t>(allocation.time_ns);
    record.event = event[index];
    record.address = allocation.address;
    record.total_allocated_bytes = memory.allocated_bytes();
    record.total_reserved_bytes = memory.reserved_bytes();
    record.track = allocation.track;
    record.device = allocation.device;
    record.device_type = allocation.device_type;
    records.push_back(record);
  }
  return records;
}

}  // namespace torchprof
