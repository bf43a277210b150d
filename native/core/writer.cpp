#include "core/writer.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/inputs_decoder.h"
#include "core/output_file.h"

namespace torchprof {
namespace {

template <typename Record>
std::span<const std::byte> bytes_of(const Record& record) {
  return std::as_bytes(std::span(&record, 1));
}

// Gathers what is appended into chunks of one kind. One stream at a time writes to a file.
class ChunkStream {
 public:
  ChunkStream(OutputFile& file, ChunkKind kind, std::size_t record_bytes)
      : file_(file), kind_(kind), record_bytes_(static_cast<std::uint16_t>(record_bytes)) {
    buffer_.reserve(kMaxChunkBytes);
    buffer_.resize(sizeof(ChunkHeader));
  }

  // Returns the offset of the record in the file. What is appended in one call stays in one chunk.
  std::uint64_t append(std::span<const std::byte> head, std::span<const std::byte> tail = {},
                       std::uint64_t align_bytes = 1) {
    std::uint64_t begin = (buffer_.size() + align_bytes - 1) / align_bytes * align_bytes;
    const std::uint64_t size_bytes = head.size() + tail.size();
    if (begin + size_bytes > kMaxChunkBytes && buffer_.size() > sizeof(ChunkHeader)) {
      flush();
      begin = sizeof(ChunkHeader);
    }
    buffer_.resize(begin);
    buffer_.insert(buffer_.end(), head.begin(), head.end());
    buffer_.insert(buffer_.end(), tail.begin(), tail.end());
    return file_.size_bytes() + begin;
  }

  // Writes the chunk that is not full yet. Nothing is written for a stream without records.
  void flush() {
    if (buffer_.size() == sizeof(ChunkHeader)) return;
    const std::uint64_t committed = (buffer_.size() - sizeof(ChunkHeader)) / record_bytes_;
    buffer_.resize((buffer_.size() + kGranuleBytes - 1) / kGranuleBytes * kGranuleBytes);
    ChunkHeader header{};
    header.magic = kChunkMagic;
    header.kind = static_cast<std::uint16_t>(kind_);
    header.record_bytes = record_bytes_;
    header.size_bytes = buffer_.size();
    header.sequence = sequence_++;
    header.committed.store(committed);
    std::memcpy(buffer_.data(), static_cast<const void*>(&header), sizeof(header));
    file_.append(buffer_);
    buffer_.clear();
    buffer_.resize(sizeof(ChunkHeader));
  }

 private:
  OutputFile& file_;
  ChunkKind kind_;
  std::uint16_t record_bytes_;
  std::uint32_t sequence_ = 0;
  std::vector<std::byte> buffer_;
};

// Where inputs and links went, in units of kPayloadAlignBytes.
struct PayloadOffsets {
  std::vector<std::uint32_t> by_row;  // empty when no event has inputs
  std::vector<std::uint32_t> by_step;
  std::vector<std::uint32_t> by_context;
};

std::uint32_t payload_units(std::uint64_t offset) {
  const std::uint64_t units = offset / kPayloadAlignBytes;
  if (units > std::numeric_limits<std::uint32_t>::max()) {
    throw std::length_error(
        "the inputs of this recording are more than a file can address: save it in parts");
  }
  return static_cast<std::uint32_t>(units);
}

PayloadOffsets write_payload(OutputFile& file, const Recording& recording) {
  PayloadOffsets offsets;
  ChunkStream stream(file, ChunkKind::kPayload, 1);
  for (std::uint64_t row = 0; row < recording.events.size() && !recording.payload.empty(); ++row) {
    const std::span<const std::uint8_t> inputs = encoded_inputs(recording, row);
    if (inputs.empty()) continue;
    offsets.by_row.resize(recording.events.size());
    const auto size_bytes = static_cast<std::uint32_t>(inputs.size());
    offsets.by_row[row] =
        payload_units(stream.append(bytes_of(size_bytes), std::as_bytes(inputs), kPayloadAlignBytes));
  }
  const auto append_links = [&stream](const std::vector<SpanContext>& spans) {
    const auto links = std::as_bytes(std::span(spans));
    return links.empty() ? 0 : payload_units(stream.append(links, {}, kPayloadAlignBytes));
  };
  for (const Step& step : recording.steps) offsets.by_step.push_back(append_links(step.links));
  for (const EventContext& context : recording.contexts) {
    offsets.by_context.push_back(append_links(context.links));
  }
  stream.flush();
  return offsets;
}

// Writes the strings of the pool under their ids and those of tracks that it lacks under new ones.
class StringWriter {
 public:
  StringWriter(OutputFile& file, const StringPool& pool) : stream_(file, ChunkKind::kStrings, 1) {
    for (std::uint32_t id = 1; id < pool.size(); ++id) {
      append(id, pool.name(id), pool.overload(id));
      if (pool.overload(id).empty()) ids_.try_emplace(pool.name(id), id);
    }
    next_id_ = static_cast<std::uint32_t>(pool.size());
  }

  // `name` must outlive the writer.
  std::uint32_t id_of(std::string_view name) {
    if (name.empty()) return 0;
    const auto [entry, is_new] = ids_.try_emplace(name, next_id_);
    if (is_new) append(next_id_++, name, {});
    return entry->second;
  }

  void flush() { stream_.flush(); }

 private:
  void append(std::uint32_t id, std::string_view name, std::string_view overload) {
    const StringEntry entry{.id = id,
                            .name_bytes = static_cast<std::uint32_t>(name.size()),
                            .overload_bytes = static_cast<std::uint32_t>(overload.size()),
                            .reserved = 0};
    text_.assign(name).append(overload);
    stream_.append(bytes_of(entry), std::as_bytes(std::span(text_)), kPayloadAlignBytes);
  }

  ChunkStream stream_;
  std::uint32_t next_id_ = 0;
  std::unordered_map<std::string_view, std::uint32_t> ids_;
  std::string text_;
};

void write_tracks(OutputFile& file, const Recording& recording) {
  StringWriter strings(file, recording.strings);
  std::vector<TrackRecord> records;
  for (const Track& track : recording.tracks) {
    TrackRecord record{};
    record.name = strings.id_of(track.name);
    record.kind = static_cast<std::uint8_t>(track.kind);
    record.process_id = track.process_id;
    record.thread_id = track.thread_id;
    record.torch_thread_id = track.torch_thread_id;
    record.device = track.device;
    record.context = track.context;
    records.push_back(record);
  }
  strings.flush();
  ChunkStream stream(file, ChunkKind::kTracks, sizeof(TrackRecord));
  for (const TrackRecord& record : records) stream.append(bytes_of(record));
  stream.flush();
}

void write_events(OutputFile& file, const EventTable& events, const PayloadOffsets& offsets) {
  ChunkStream stream(file, ChunkKind::kEvents, sizeof(EventRecord));
  for (std::uint64_t row = 0; row < events.size(); ++row) {
    EventRecord record{};
    record.start_ns = events.start_ns[row];
    record.end_ns = events.end_ns[row];
    record.name = events.name[row];
    record.track = events.track[row];
    record.kind = events.kind[row];
    record.scope = events.scope[row];
    record.flags = events.flags[row];
    record.forward_thread = events.forward_thread[row];
    record.sequence = events.sequence[row];
    record.correlation = events.correlation.empty() ? -1 : events.correlation[row];
    record.end_track = events.end_track[row];
    record.payload = offsets.by_row.empty() ? 0 : offsets.by_row[row];
    record.error = events.error.empty() ? 0 : events.error[row];
    stream.append(bytes_of(record));
  }
  stream.flush();
}

void write_steps(OutputFile& file, const std::vector<Step>& steps, const PayloadOffsets& offsets) {
  ChunkStream stream(file, ChunkKind::kSteps, sizeof(StepRecord));
  for (std::size_t index = 0; index < steps.size(); ++index) {
    const Step& step = steps[index];
    StepRecord record{};
    record.start_ticks = static_cast<std::uint64_t>(step.start_ns);
    record.end_ticks.store(static_cast<std::uint64_t>(step.end_ns));
    record.number = step.number;
    record.thread = step.track;
    record.phase = static_cast<std::uint8_t>(step.phase);
    record.flags = step.flags;
    record.context_trace_flags = step.context_trace_flags;
    std::memcpy(record.context_trace_id, step.context.trace_id, sizeof(record.context_trace_id));
    std::memcpy(record.context_span_id, step.context.span_id, sizeof(record.context_span_id));
    record.links_payload = offsets.by_step[index];
    record.links_count = static_cast<std::uint32_t>(step.links.size());
    stream.append(bytes_of(record));
  }
  stream.flush();
}

void write_contexts(OutputFile& file, const Recording& recording, const PayloadOffsets& offsets) {
  ChunkStream stream(file, ChunkKind::kContexts, sizeof(ContextRecord));
  for (std::size_t index = 0; index < recording.contexts.size(); ++index) {
    const EventContext& context = recording.contexts[index];
    ContextRecord record{};
    record.time = static_cast<std::uint64_t>(recording.events.start_ns[context.event]);
    record.event = static_cast<std::int64_t>(context.event);
    record.track = recording.events.track[context.event];
    record.trace_flags = context.trace_flags;
    record.flags = context.flags;
    std::memcpy(record.trace_id, context.context.trace_id, sizeof(record.trace_id));
    std::memcpy(record.span_id, context.context.span_id, sizeof(record.span_id));
    record.links_payload = offsets.by_context[index];
    record.links_count = static_cast<std::uint32_t>(context.links.size());
    stream.append(bytes_of(record));
  }
  stream.flush();
}

template <typename Record>
void write_table(OutputFile& file, ChunkKind kind, const std::vector<Record>& records) {
  ChunkStream stream(file, kind, sizeof(Record));
  for (const Record& record : records) stream.append(bytes_of(record));
  stream.flush();
}

void write_links(OutputFile& file, const LinkTable& links) {
  ChunkStream stream(file, ChunkKind::kLinks, sizeof(LinkRecord));
  for (std::size_t index = 0; index < links.from.size(); ++index) {
    const LinkRecord record{
        .from = links.from[index], .to = links.to[index], .type = links.type[index], .reserved = 0};
    stream.append(bytes_of(record));
  }
  stream.flush();
}

void write_metadata(OutputFile& file, const std::vector<std::string>& lines) {
  ChunkStream stream(file, ChunkKind::kMetadata, 1);
  constexpr char kLineBreak = '\n';
  for (const std::string& line : lines) stream.append(std::as_bytes(std::span(line)), bytes_of(kLineBreak));
  stream.flush();
}

void fill_header(FileHeader& header, const Recording& recording, std::uint64_t used_bytes) {
  std::memcpy(header.magic, kFileMagic, sizeof(header.magic));
  header.version = kFormatVersion;
  header.endian = kEndianMark;
  header.header_bytes = kGranuleBytes;
  header.granule_bytes = kGranuleBytes;
  header.cap_bytes = used_bytes;
  header.used_bytes.store(used_bytes);
  const RecordingState state = recording.stopped ? RecordingState::kStopped : RecordingState::kRecording;
  header.state.store(static_cast<std::uint32_t>(state));
  header.clock_source = static_cast<std::uint32_t>(ClockSource::kUnixNs);
  header.clock_start = {.ticks = static_cast<std::uint64_t>(recording.start_ns),
                        .realtime_ns = recording.start_ns,
                        .monotonic_ns = recording.clock_start.monotonic_ns};
  header.clock_latest = {.ticks = static_cast<std::uint64_t>(recording.end_ns),
                         .realtime_ns = recording.end_ns,
                         .monotonic_ns = recording.clock_latest.monotonic_ns};
  header.process_id = recording.process_id;
  header.process_instance = recording.process_instance;
  for (std::size_t reason = 0; reason < std::size(recording.drops); ++reason) {
    header.drops[reason].store(recording.drops[reason]);
  }
}

}  // namespace

void save_recording(const Recording& recording, const std::string& path) {
  OutputFile file(path);
  std::vector<std::byte> header(kGranuleBytes);
  file.append(header);
  const PayloadOffsets offsets = write_payload(file, recording);
  write_tracks(file, recording);
  write_events(file, recording.events, offsets);
  write_steps(file, recording.steps, offsets);
  write_contexts(file, recording, offsets);
  write_links(file, recording.links);
  write_table(file, ChunkKind::kDevice, recording.devices);
  write_table(file, ChunkKind::kCounters, recording.counters);
  write_table(file, ChunkKind::kMemory, recording.memory);
  write_table(file, ChunkKind::kArguments, recording.arguments);
  write_table(file, ChunkKind::kTensorRoles, recording.tensor_roles);
  write_metadata(file, recording.metadata_json);
  fill_header(*new (header.data()) FileHeader{}, recording, file.size_bytes());
  // Last: until then the file is no recording, should the process die here.
  file.rewrite(0, header);
  file.publish();
}

}  // namespace torchprof
