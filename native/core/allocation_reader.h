// Reads what allocators did while a capture ran, and finds what its hot path left out: the event each
// allocation belongs to, the size of what was freed, and the totals of each device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/chunk_index.h"
#include "core/recording.h"
#include "core/time_reader.h"
#include "core/track_reader.h"

namespace torchprof {

struct Allocation {
  std::int64_t time_ns;
  std::uint64_t address;
  std::uint64_t size_bytes;
  std::uint32_t track;
  std::int32_t device;
  std::uint8_t device_type;
  AllocationAction action;
};

// In order of time.
[[nodiscard]] std::vector<Allocation> read_allocations(std::span<const std::byte> file,
                                                       const std::vector<Chunk>& chunks, TimeReader& times,
                                                       TrackReader& tracks);

// As rows of Recording::memory. A block is known by device and address; freeing an unknown one is flagged
// kMemoryBeforeCapture and changes no total. An address that is allocated again was freed unseen in between:
// the totals let the old block go. Totals count from the beginning of the capture. Events must be in order.
[[nodiscard]] std::vector<MemoryRecord> memory_records(const std::vector<Allocation>& allocations,
                                                       const EventTable& events);

}  // namespace torchprof
