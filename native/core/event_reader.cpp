#include "core/event_reader.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "core/inputs_encoding.h"
#include "core/record_cursor.h"
#include "core/row_order.h"

namespace torchprof {

namespace {

// A thread records its events in the order of rows: with its chunks in sequence there is nothing to sort.
void sort_by_sequence(std::vector<const Chunk*>& chunks) {
  std::stable_sort(chunks.begin(), chunks.end(),
                   [](const Chunk* a, const Chunk* b) { return a->sequence < b->sequence; });
}

bool lies_before(const OpRecord& op, const FrameSlice& frame) noexcept {
  const std::uint64_t end_ticks = op.end_ticks.load(std::memory_order_acquire);
  return comes_before(op.start_ticks, end_ticks == 0 ? kStillOpen : end_ticks, frame.start_ticks,
                      frame.end_ticks);
}

}  // namespace

PayloadRanges::PayloadRanges(std::span<const std::byte> file, const std::vector<Chunk>& chunks)
    : file_(file) {
  for (const Chunk& chunk : chunks) {
    if (chunk.kind != ChunkKind::kPayload) continue;
    ranges_.push_back({.begin = chunk.data_offset, .end = chunk.data_offset + chunk.count});
  }
}

bool PayloadRanges::holds(std::uint64_t offset, std::uint64_t size_bytes) const noexcept {
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), offset,
                                      [](std::uint64_t at, const Range& range) { return at < range.begin; });
  if (after == ranges_.begin()) return false;
  const Range& range = *std::prev(after);
  return offset <= range.end && size_bytes <= range.end - offset;
}

std::uint64_t PayloadRanges::inputs_offset(std::uint32_t payload, ProblemCounts& problems) const noexcept {
  if (payload == 0) return 0;
  const std::uint64_t offset = std::uint64_t{payload} * kPayloadAlignBytes;
  if (holds(offset, kInputsLengthBytes)) {
    std::uint32_t byte_count = 0;
    std::memcpy(&byte_count, file_.data() + offset, sizeof(byte_count));
    if (holds(offset, kInputsLengthBytes + std::uint64_t{byte_count})) return offset;
  }
  problems.add(ReadProblem::kPayloadOutOfRange);
  return 0;
}

void EventReader::read(const std::vector<Chunk>& chunks) {
  struct TrackChunks {
    std::vector<const Chunk*> ops;
    std::vector<const Chunk*> frames;
  };
  std::map<std::uint32_t, TrackChunks> by_track;
  std::vector<const Chunk*> saved_chunks;
  std::uint64_t rows = 0;
  for (const Chunk& chunk : chunks) {
    if (chunk.count == 0) continue;
    switch (chunk.kind) {
      case ChunkKind::kOps:
        by_track[tracks_.of_thread(chunk.thread)].ops.push_back(&chunk);
        break;
      case ChunkKind::kFrames:
        by_track[tracks_.of_thread(chunk.thread)].frames.push_back(&chunk);
        break;
      case ChunkKind::kEvents:
        saved_chunks.push_back(&chunk);
        break;
      case ChunkKind::kDeviceOps:
        refers_to_ops_ = true;
        continue;
      default:
        continue;
    }
    rows += chunk.count;
  }
  reserve(rows);
  for (const Chunk* chunk : saved_chunks) {
    for (const EventRecord& event : records_of<EventRecord>(file_, *chunk)) read_saved(event);
  }
  for (auto& [track, track_chunks] : by_track) {
    sort_by_sequence(track_chunks.ops);
    sort_by_sequence(track_chunks.frames);
    read_track(track, track_chunks.ops, track_chunks.frames);
  }
  if (!events_.correlation.empty()) events_.correlation.resize(events_.size(), -1);
  std::sort(op_rows_.begin(), op_rows_.end());
}

std::uint64_t EventReader::add_device_event(std::uint8_t kind, std::uint32_t name, std::uint32_t track,
                                            const EventTimes& times, std::int64_t correlation) {
  has_device_events_ = true;
  events_.correlation.resize(events_.size(), -1);
  events_.correlation.push_back(std::max<std::int64_t>(correlation, -1));
  events_.start_ns.push_back(times.start_ns);
  events_.end_ns.push_back(times.end_ns);
  events_.name.push_back(name);
  events_.track.push_back(track);
  events_.kind.push_back(known_kind(kind));
  events_.scope.push_back(0);
  events_.flags.push_back(0);
  events_.sequence.push_back(-1);
  events_.forward_thread.push_back(0);
  events_.end_track.push_back(0);
  events_.payload.push_back(0);
  return events_.size() - 1;
}

std::optional<std::uint64_t> EventReader::row_of_op(std::uint32_t place) const {
  const auto found =
      std::lower_bound(op_rows_.begin(), op_rows_.end(), std::make_pair(place, std::uint64_t{0}));
  if (found == op_rows_.end() || found->first != place) return std::nullopt;
  return found->second;
}

void EventReader::fit_into_op(std::uint32_t place, std::uint32_t track, EventTimes& times) const {
  const std::optional<std::uint64_t> op = row_of_op(place);
  if (!op || events_.track[*op] != track) return;
  constexpr std::uint16_t kEndsElsewhere = kFlagAsync | kFlagOtherThread | kFlagUnfinished;
  const std::int64_t start_ns = events_.start_ns[*op];
  const std::int64_t end_ns = (events_.flags[*op] & kEndsElsewhere) != 0 ? kMaxTimeNs : events_.end_ns[*op];
  times.start_ns = std::clamp(times.start_ns, start_ns, end_ns);
  times.end_ns = std::clamp(times.end_ns, times.start_ns, end_ns);
}

void EventReader::read_track(std::uint32_t track, std::span<const Chunk* const> op_chunks,
                             std::span<const Chunk* const> frame_chunks) {
  RecordCursor<OpRecord> ops(file_, op_chunks);
  for (FrameReader frames(file_, frame_chunks, op_chunks); frames.get() != nullptr; frames.advance()) {
    const FrameSlice& frame = *frames.get();
    for (; ops.get() != nullptr && lies_before(*ops.get(), frame); ops.advance()) read_op(*ops.get(), track);
    read_frame(frame, track);
  }
  for (; ops.get() != nullptr; ops.advance()) read_op(*ops.get(), track);
}

void EventReader::reserve(std::uint64_t rows) {
  events_.start_ns.reserve(rows);
  events_.end_ns.reserve(rows);
  events_.name.reserve(rows);
  events_.track.reserve(rows);
  events_.kind.reserve(rows);
  events_.scope.reserve(rows);
  events_.flags.reserve(rows);
  events_.sequence.reserve(rows);
  events_.forward_thread.reserve(rows);
  events_.end_track.reserve(rows);
  events_.payload.reserve(rows);
}

std::vector<std::uint64_t> EventReader::finish(std::int64_t last_ns) {
  for (const std::uint64_t row : open_rows_) events_.end_ns[row] = std::max(events_.start_ns[row], last_ns);
  if (!events_.error.empty()) events_.error.resize(events_.size());
  std::vector<std::uint64_t> new_rows = order_rows(events_);
  // What a device reports comes when it comes, on top of what its threads recorded.
  if (!new_rows.empty() && !has_device_events_) problems_.add(ReadProblem::kRowsOutOfOrder);
  return new_rows;
}

void EventReader::add_error(std::uint32_t error) {
  if (error == 0) return;
  events_.error.resize(events_.size());
  events_.error.push_back(strings_.find(error, problems_));
}

void EventReader::read_op(const OpRecord& op, std::uint32_t track) {
  if (refers_to_ops_) {
    const auto offset = static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(&op) - file_.data());
    op_rows_.emplace_back(static_cast<std::uint32_t>(offset / kPayloadAlignBytes), events_.size());
  }
  const std::uint64_t end_ticks = op.end_ticks.load(std::memory_order_acquire);
  add_error(op.error);
  std::uint16_t flags = op.flags.load(std::memory_order_relaxed);
  const std::int64_t start_ns = times_.unix_ns(op.start_ticks);
  std::int64_t end_ns = start_ns;
  if (end_ticks == 0) {
    flags |= kFlagUnfinished;
    open_rows_.push_back(events_.size());
  } else {
    end_ns = times_.no_earlier(times_.unix_ns(end_ticks), start_ns);
  }
  events_.start_ns.push_back(start_ns);
  events_.end_ns.push_back(end_ns);
  events_.name.push_back(strings_.find(op.name, problems_));
  events_.track.push_back(track);
  events_.kind.push_back(known_kind(op.kind));
  events_.scope.push_back(op.scope);
  events_.flags.push_back(flags);
  events_.sequence.push_back(op.sequence);
  events_.forward_thread.push_back(op.forward_thread);
  events_.end_track.push_back((flags & kFlagOtherThread) != 0 ? tracks_.of_thread(op.end_thread) : 0);
  events_.payload.push_back(payload_.inputs_offset(op.payload, problems_));
}

void EventReader::read_frame(const FrameSlice& frame, std::uint32_t track) {
  std::uint16_t flags = frame.record->flags.load(std::memory_order_relaxed);
  const std::int64_t start_ns = times_.unix_ns(frame.start_ticks);
  std::int64_t end_ns = start_ns;
  if (frame.end_ticks == kStillOpen) {
    flags |= kFlagUnfinished;
    open_rows_.push_back(events_.size());
  } else {
    end_ns = times_.no_earlier(times_.unix_ns(frame.end_ticks), start_ns);
  }
  events_.start_ns.push_back(start_ns);
  events_.end_ns.push_back(end_ns);
  events_.name.push_back(strings_.find(frame.record->name, problems_));
  events_.track.push_back(track);
  events_.kind.push_back(known_kind(frame.record->kind));
  events_.scope.push_back(0);
  events_.flags.push_back(flags);
  events_.sequence.push_back(-1);
  events_.forward_thread.push_back(0);
  events_.end_track.push_back(0);
  events_.payload.push_back(0);
}

void EventReader::read_saved(const EventRecord& event) {
  if (event.correlation >= 0) {
    events_.correlation.resize(events_.size(), -1);
    events_.correlation.push_back(event.correlation);
  }
  add_error(event.error);
  const std::int64_t start_ns = times_.in_range(event.start_ns);
  events_.start_ns.push_back(start_ns);
  events_.end_ns.push_back(times_.no_earlier(times_.in_range(event.end_ns), start_ns));
  events_.name.push_back(strings_.find(event.name, problems_));
  events_.track.push_back(tracks_.saved(event.track));
  events_.kind.push_back(known_kind(event.kind));
  events_.scope.push_back(event.scope);
  events_.flags.push_back(event.flags);
  events_.sequence.push_back(event.sequence);
  events_.forward_thread.push_back(event.forward_thread);
  events_.end_track.push_back((event.flags & kFlagOtherThread) != 0 ? tracks_.saved(event.end_track) : 0);
  events_.payload.push_back(payload_.inputs_offset(event.payload, problems_));
}

std::uint8_t EventReader::known_kind(std::uint8_t kind) noexcept {
  if (kind <= static_cast<std::uint8_t>(EventKind::kOther)) [[likely]]
    return kind;
  problems_.add(ReadProblem::kUnknownEventKind);
  return static_cast<std::uint8_t>(EventKind::kOther);
}

}  // namespace torchprof
