#include "core/event_context.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "core/active_recording.h"
#include "core/clock.h"
#include "core/innermost_events.h"
#include "core/step_reader.h"

namespace torchprof {

void ActiveRecording::add_context(const ContextStart& context, std::uint32_t thread) noexcept {
  const std::lock_guard lock(mutex_);
  if (finished_) {
    return;
  }
  std::byte* room = contexts_.reserve(arena_, sizeof(ContextRecord));
  if (room == nullptr) {
    count_drops(contexts_.failure());
    return;
  }
  auto* record = new (room) ContextRecord{};
  record->time = ticks();
  record->event = -1;
  record->track = thread;
  record->trace_flags = context.trace_flags;
  record->flags = context.flags;
  std::memcpy(static_cast<void*>(record->trace_id), context.context.data(), sizeof(record->trace_id));
  std::memcpy(static_cast<void*>(record->span_id), context.context.data() + sizeof(record->trace_id),
              sizeof(record->span_id));
  record->links_payload = write_links_locked(context.links);
  if (record->links_payload != 0) {
    record->links_count = static_cast<std::uint32_t>(context.links.size() / kContextBytes);
  }
  contexts_.commit_record(sizeof(ContextRecord));
}

std::vector<ReadContext> read_contexts(std::span<const std::byte> file, const std::vector<Chunk>& chunks,
                                       std::uint64_t events_count, const PayloadRanges& payload,
                                       TimeReader& times, TrackReader& tracks, ProblemCounts& problems) {
  std::vector<ReadContext> contexts;
  SpanLinkReader links(file, payload, problems);
  for (const Chunk& chunk : chunks) {
    if (chunk.kind != ChunkKind::kContexts) continue;
    for (const ContextRecord& record : records_of<ContextRecord>(file, chunk)) {
      if (record.event < -1 || record.event >= static_cast<std::int64_t>(events_count)) {
        problems.add(ReadProblem::kSideRowWithoutEvent);
        continue;
      }
      ReadContext& read = contexts.emplace_back();
      read.event = record.event;
      read.track = tracks.of_step(record.track);
      read.time_ns = times.unix_ns(record.time);
      read.context.trace_flags = record.trace_flags;
      read.context.flags = record.flags;
      std::memcpy(read.context.context.trace_id, record.trace_id, sizeof(record.trace_id));
      std::memcpy(read.context.context.span_id, record.span_id, sizeof(record.span_id));
      read.context.links = links.read(record.links_payload, record.links_count);
    }
  }
  return contexts;
}

std::vector<EventContext> place_contexts(std::vector<ReadContext> contexts, const EventTable& events,
                                         const std::vector<std::uint64_t>& new_rows) {
  std::stable_sort(contexts.begin(), contexts.end(), [](const ReadContext& a, const ReadContext& b) {
    return a.track != b.track ? a.track < b.track : a.time_ns < b.time_ns;
  });
  std::vector<TrackMoment> moments;
  moments.reserve(contexts.size());
  for (const ReadContext& read : contexts) moments.push_back({.track = read.track, .time_ns = read.time_ns});
  const std::vector<std::int64_t> innermost = innermost_events(events, moments);

  std::vector<EventContext> placed;
  for (std::size_t i = 0; i < contexts.size(); ++i) {
    std::int64_t row = innermost[i];
    if (contexts[i].event >= 0) {
      const auto number = static_cast<std::uint64_t>(contexts[i].event);
      row = static_cast<std::int64_t>(new_rows.empty() ? number : new_rows[number]);
    }
    if (row < 0) continue;
    contexts[i].context.event = static_cast<std::uint64_t>(row);
    placed.push_back(std::move(contexts[i].context));
  }
  std::stable_sort(placed.begin(), placed.end(),
                   [](const EventContext& a, const EventContext& b) { return a.event < b.event; });
  std::vector<EventContext> latest;
  for (std::size_t i = 0; i < placed.size(); ++i) {
    const bool is_last = i + 1 == placed.size() || placed[i + 1].event != placed[i].event;
    if (is_last) latest.push_back(std::move(placed[i]));
  }
  return latest;
}

}  // namespace torchprof
