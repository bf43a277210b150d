#include "core/side_table_reader.h"

namespace torchprof {
namespace {

// `times` and `tracks` of counters and memory mean the same and are converted alike.
template <typename Record>
[[nodiscard]] bool convert(Record& record, std::int64_t lowest_event, std::uint64_t events_count,
                           TimeReader& times, TrackReader& tracks, ProblemCounts& problems) {
  if (record.event < lowest_event || record.event >= static_cast<std::int64_t>(events_count)) {
    problems.add(ReadProblem::kSideRowWithoutEvent);
    return false;
  }
  record.time = static_cast<std::uint64_t>(times.unix_ns(record.time));
  record.track = tracks.of_step(record.track);
  return true;
}

}  // namespace

SideTables read_side_tables(std::span<const std::byte> file, const std::vector<Chunk>& chunks,
                            std::uint64_t events_count, const StringIds& strings, TimeReader& times,
                            TrackReader& tracks, ProblemCounts& problems) {
  SideTables tables;
  for (const Chunk& chunk : chunks) {
    if (chunk.kind == ChunkKind::kDevice) {
      for (const DeviceRecord& record : records_of<DeviceRecord>(file, chunk)) {
        if (record.event < events_count) {
          tables.devices.push_back(record);
        } else {
          problems.add(ReadProblem::kSideRowWithoutEvent);
        }
      }
    } else if (chunk.kind == ChunkKind::kCounters) {
      for (CounterRecord record : records_of<CounterRecord>(file, chunk)) {
        if (!convert(record, kEventByStart, events_count, times, tracks, problems)) continue;
        record.name = strings.find(record.name, problems);
        tables.counters.push_back(record);
      }
    } else if (chunk.kind == ChunkKind::kMemory) {
      for (MemoryRecord record : records_of<MemoryRecord>(file, chunk)) {
        if (convert(record, -1, events_count, times, tracks, problems)) tables.memory.push_back(record);
      }
    }
  }
  return tables;
}

}  // namespace torchprof
