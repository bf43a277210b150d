#include "core/chunk_index.h"

#include <algorithm>

namespace torchprof {
namespace {

// 0 for a kind that this version does not know or that holds nothing.
std::uint64_t record_bytes_of(ChunkKind kind) noexcept {
  switch (kind) {
    case ChunkKind::kOps:
      return sizeof(OpRecord);
    case ChunkKind::kPayload:
    case ChunkKind::kStrings:
    case ChunkKind::kMetadata:
      return 1;
    case ChunkKind::kThreads:
      return sizeof(ThreadRecord);
    case ChunkKind::kSteps:
      return sizeof(StepRecord);
    case ChunkKind::kEvents:
      return sizeof(EventRecord);
    case ChunkKind::kTracks:
      return sizeof(TrackRecord);
    case ChunkKind::kLinks:
      return sizeof(LinkRecord);
    case ChunkKind::kDevice:
      return sizeof(DeviceRecord);
    case ChunkKind::kCounters:
      return sizeof(CounterRecord);
    case ChunkKind::kMemory:
      return sizeof(MemoryRecord);
    case ChunkKind::kFrames:
      return sizeof(FrameRecord);
    case ChunkKind::kArguments:
      return sizeof(ArgumentsRecord);
    case ChunkKind::kContexts:
      return sizeof(ContextRecord);
    case ChunkKind::kTensorRoles:
      return sizeof(TensorRoleRecord);
    case ChunkKind::kAllocations:
      return sizeof(AllocationRecord);
    case ChunkKind::kDeviceCalls:
      return sizeof(DeviceCallRecord);
    case ChunkKind::kDeviceWork:
      return sizeof(DeviceWorkRecord);
    case ChunkKind::kDeviceOps:
      return sizeof(DeviceOpRecord);
    case ChunkKind::kFree:
      return 0;
  }
  return 0;
}

}  // namespace

std::vector<Chunk> index_chunks(std::span<const std::byte> file, ProblemCounts& problems) {
  const FileHeader& header = header_of(file);
  const std::uint64_t used_bytes = header.used_bytes.load(std::memory_order_acquire);
  const bool is_stopped =
      header.state.load(std::memory_order_acquire) == static_cast<std::uint32_t>(RecordingState::kStopped);
  const std::uint64_t end = std::min<std::uint64_t>(used_bytes, file.size());
  bool is_cut_off = used_bytes > file.size();
  bool is_in_bad_run = false;

  std::vector<Chunk> chunks;
  std::uint64_t offset = kGranuleBytes;
  while (offset + sizeof(ChunkHeader) <= end) {
    const auto& chunk = *reinterpret_cast<const ChunkHeader*>(file.data() + offset);
    const std::uint64_t committed = chunk.committed.load(std::memory_order_acquire);
    if (chunk.magic != kChunkMagic || chunk.size_bytes < kGranuleBytes ||
        chunk.size_bytes % kGranuleBytes != 0) {
      // A blank one was handed out but not set up before the process died: nothing is lost with it.
      const bool is_blank = chunk.magic == 0 && !is_stopped;
      if (!is_blank && !is_in_bad_run) problems.add(ReadProblem::kBadChunkHeader);
      is_in_bad_run = !is_blank;
      offset += kGranuleBytes;
      continue;
    }
    is_in_bad_run = false;
    const std::uint64_t available = end - offset;
    is_cut_off = is_cut_off || chunk.size_bytes > available;
    const std::uint64_t readable = std::min(chunk.size_bytes, available) - sizeof(ChunkHeader);
    const auto kind = static_cast<ChunkKind>(chunk.kind);
    const std::uint64_t record_bytes = record_bytes_of(kind);
    if (kind == ChunkKind::kFree) {
      // Given back by its thread and not taken again.
    } else if (record_bytes == 0) {
      problems.add(ReadProblem::kUnknownChunkKind);
    } else if (record_bytes != chunk.record_bytes) {
      problems.add(ReadProblem::kWrongRecordSize);
    } else {
      const std::uint64_t capacity = readable / record_bytes;
      if (committed > capacity) problems.add(ReadProblem::kCommittedTooLarge);
      chunks.push_back({.kind = kind,
                        .thread = chunk.thread,
                        .sequence = chunk.sequence,
                        .data_offset = offset + sizeof(ChunkHeader),
                        .count = std::min(committed, capacity)});
    }
    offset += std::min(chunk.size_bytes, available);
  }
  if (is_cut_off) problems.add(ReadProblem::kFileCutOff);
  return chunks;
}

}  // namespace torchprof
