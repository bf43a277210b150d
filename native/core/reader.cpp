#include "core/reader.h"

#include <algorithm>
#include <atomic>
#include <string_view>
#include <utility>

#include "core/allocation_reader.h"
#include "core/arguments_reader.h"
#include "core/chunk_index.h"
#include "core/counted_events.h"
#include "core/device_reader.h"
#include "core/event_context.h"
#include "core/event_reader.h"
#include "core/file_image.h"
#include "core/problems.h"
#include "core/scope_frames.h"
#include "core/side_table_order.h"
#include "core/side_table_reader.h"
#include "core/step_phases.h"
#include "core/step_reader.h"
#include "core/string_reader.h"
#include "core/tensor_roles.h"
#include "core/time_reader.h"
#include "core/track_reader.h"

namespace torchprof {
namespace {

// The latest calibration, read under its sequence lock. False when the process died while writing it.
bool read_latest_clock(const FileHeader& header, ClockPair& pair) {
  constexpr int kMaxTries = 1000;
  for (int attempt = 0; attempt < kMaxTries; ++attempt) {
    const std::uint64_t before = header.clock_latest_sequence.load(std::memory_order_acquire);
    pair.ticks = __atomic_load_n(&header.clock_latest.ticks, __ATOMIC_ACQUIRE);
    pair.realtime_ns = __atomic_load_n(&header.clock_latest.realtime_ns, __ATOMIC_ACQUIRE);
    pair.monotonic_ns = __atomic_load_n(&header.clock_latest.monotonic_ns, __ATOMIC_ACQUIRE);
    const std::uint64_t after = header.clock_latest_sequence.load(std::memory_order_relaxed);
    if (before == after && before % 2 == 0) return true;
  }
  return false;
}

void read_header(const FileHeader& header, const ReadOptions& options, Recording& recording,
                 ProblemCounts& problems) {
  recording.clock_source = static_cast<ClockSource>(header.clock_source);
  if (recording.clock_source > ClockSource::kUnixNs) {
    problems.add(ReadProblem::kClockNotCalibrated);
    recording.clock_source = ClockSource::kUnixNs;
  }
  recording.clock_start = header.clock_start;
  if (options.clock_now) {
    recording.clock_latest = *options.clock_now;
  } else if (!read_latest_clock(header, recording.clock_latest)) {
    problems.add(ReadProblem::kClockNotCalibrated);
  }
  recording.process_id = header.process_id;
  recording.process_instance = header.process_instance;
  recording.stopped = header.state.load() == static_cast<std::uint32_t>(RecordingState::kStopped);
  for (std::size_t reason = 0; reason < std::size(recording.drops); ++reason) {
    recording.drops[reason] = header.drops[reason].load(std::memory_order_relaxed);
  }
}

std::vector<std::string> read_metadata(std::span<const std::byte> file, const std::vector<Chunk>& chunks,
                                       ProblemCounts& problems) {
  std::vector<std::string> lines;
  for (const Chunk& chunk : chunks) {
    if (chunk.kind != ChunkKind::kMetadata) continue;
    std::string_view rest(reinterpret_cast<const char*>(file.data() + chunk.data_offset), chunk.count);
    while (!rest.empty()) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
      if (line.empty()) continue;
      if (lines.size() == kMaxMetadataLines) {
        problems.add(ReadProblem::kMetadataTooLong);
        return lines;
      }
      lines.emplace_back(line);
    }
  }
  return lines;
}

// `new_rows`: by row of the file, empty when rows did not move.
LinkTable read_links(std::span<const std::byte> file, const std::vector<Chunk>& chunks, std::uint64_t rows,
                     const std::vector<std::uint64_t>& new_rows, ProblemCounts& problems) {
  LinkTable links;
  for (const Chunk& chunk : chunks) {
    if (chunk.kind != ChunkKind::kLinks) continue;
    for (const LinkRecord& link : records_of<LinkRecord>(file, chunk)) {
      if (std::max(link.from, link.to) >= rows) {
        problems.add(ReadProblem::kLinkTargetMissing);
        continue;
      }
      links.from.push_back(new_rows.empty() ? link.from : new_rows[link.from]);
      links.to.push_back(new_rows.empty() ? link.to : new_rows[link.to]);
      links.type.push_back(link.type);
    }
  }
  return links;
}

void add_links(const LinkTable& added, const std::vector<std::uint64_t>& new_rows, LinkTable& links) {
  for (std::size_t i = 0; i < added.type.size(); ++i) {
    links.from.push_back(new_rows.empty() ? added.from[i] : new_rows[added.from[i]]);
    links.to.push_back(new_rows.empty() ? added.to[i] : new_rows[added.to[i]]);
    links.type.push_back(added.type[i]);
  }
}

// `record_chunks` was indexed before everything that its records refer to was committed or copied.
Recording read(std::span<const std::byte> file, std::shared_ptr<const void> owner,
               const std::vector<Chunk>& record_chunks, const ReadOptions& options) {
  Recording recording;
  ProblemCounts problems;
  const std::vector<Chunk> chunks = index_chunks(file, problems);
  read_header(header_of(file), options, recording, problems);

  const StringIds strings = read_strings(file, chunks, recording.strings, problems);
  const PayloadRanges payload(file, chunks);
  TrackReader tracks(file, chunks, strings, recording.strings, problems);
  TimeReader times(recording.clock_source, recording.clock_start, recording.clock_latest, problems);
  recording.start_ns = times.unix_ns(recording.clock_start.ticks);
  // A process killed before its first calibration leaves zeros.
  if (recording.clock_latest.monotonic_ns != 0) (void)times.unix_ns(recording.clock_latest.ticks);

  EventReader events(file, strings, payload, times, tracks, problems);
  events.read(record_chunks);
  recording.steps = read_steps(file, record_chunks, payload, times, tracks, problems);
  SideTables side_tables =
      read_side_tables(file, record_chunks, events.count(), strings, times, tracks, problems);
  std::vector<ArgumentsRecord> arguments =
      read_arguments(file, record_chunks, events.count(), strings, recording.strings, problems);
  std::vector<ReadContext> contexts =
      read_contexts(file, record_chunks, events.count(), payload, times, tracks, problems);
  const DeviceRows device = read_device(file, record_chunks, strings, times, tracks, events, problems);
  const std::vector<Allocation> allocations = read_allocations(file, record_chunks, times, tracks);
  recording.end_ns = times.last_ns();
  const std::vector<std::uint64_t> new_rows = events.finish(recording.end_ns);
  recording.events = events.take();
  cut_frames_at_scopes(recording);
  find_step_phases(recording);
  recording.tracks = tracks.take();
  recording.devices = std::move(side_tables.devices);
  recording.devices.insert(recording.devices.end(), device.devices.begin(), device.devices.end());
  recording.counters = std::move(side_tables.counters);
  recording.memory = std::move(side_tables.memory);
  recording.arguments = std::move(arguments);
  recording.tensor_roles = read_tensor_roles(file, record_chunks, strings, times, problems);
  order_side_tables(recording, new_rows);
  find_counted_events(recording, problems);
  if (!allocations.empty()) recording.memory = memory_records(allocations, recording.events);
  recording.contexts = place_contexts(std::move(contexts), recording.events, new_rows);
  recording.links = read_links(file, chunks, recording.events.size(), new_rows, problems);
  add_links(device.links, new_rows, recording.links);
  recording.metadata_json = read_metadata(file, chunks, problems);
  recording.problems = problems.occurred();
  if (!payload.empty()) {
    recording.payload = {reinterpret_cast<const std::uint8_t*>(file.data()), file.size()};
    recording.payload_owner = std::move(owner);
  }
  return recording;
}

}  // namespace

Recording open_recording(const std::string& path) {
  FileImage image = read_file(path);
  return read(image.bytes, std::move(image.owner), image.record_chunks, {});
}

Recording read_recording(std::span<const std::byte> file, std::shared_ptr<const void> owner,
                         const ReadOptions& options) {
  require_recording_header(file, "the memory given");
  ProblemCounts counted_later;
  const std::vector<Chunk> record_chunks = index_chunks(file, counted_later);
  return read(file, std::move(owner), record_chunks, options);
}

}  // namespace torchprof
