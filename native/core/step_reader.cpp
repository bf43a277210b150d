#include "core/step_reader.h"

#include <algorithm>
#include <cstring>

namespace torchprof {
std::vector<SpanContext> SpanLinkReader::read(std::uint32_t payload_units, std::uint32_t count) {
  std::vector<SpanContext> links;
  if (count == 0) return links;
  const std::uint64_t offset = std::uint64_t{payload_units} * kPayloadAlignBytes;
  const std::uint64_t size_bytes = std::uint64_t{count} * sizeof(SpanContext);
  if (count > left_ || !payload_.holds(offset, size_bytes)) {
    problems_.add(ReadProblem::kStepLinksOutOfRange);
    return links;
  }
  left_ -= count;
  links.resize(count);
  std::memcpy(links.data(), file_.data() + offset, size_bytes);
  return links;
}

static_assert(sizeof(SpanContext) == 24);

std::vector<Step> read_steps(std::span<const std::byte> file, const std::vector<Chunk>& chunks,
                             const PayloadRanges& payload, TimeReader& times, TrackReader& tracks,
                             ProblemCounts& problems) {
  std::vector<Step> steps;
  std::vector<std::size_t> open_steps;
  SpanLinkReader links(file, payload, problems);
  for (const Chunk& chunk : chunks) {
    if (chunk.kind != ChunkKind::kSteps) continue;
    for (const StepRecord& record : records_of<StepRecord>(file, chunk)) {
      const std::uint64_t end_ticks = record.end_ticks.load(std::memory_order_acquire);
      // In a saved recording 0 is a time like any other.
      const bool is_open = end_ticks == 0 && !times.is_unix_ns();
      Step step;
      step.start_ns = times.unix_ns(record.start_ticks);
      step.end_ns = is_open ? step.start_ns : times.no_earlier(times.unix_ns(end_ticks), step.start_ns);
      step.number = record.number;
      step.track = tracks.of_step(record.thread);
      if (record.phase <= static_cast<std::uint8_t>(StepPhase::kInfer)) {
        step.phase = static_cast<StepPhase>(record.phase);
      }
      step.flags = record.flags;
      if (is_open) {
        step.flags |= kStepUnfinished | kStepPartial;
        open_steps.push_back(steps.size());
      }
      step.context_trace_flags = record.context_trace_flags;
      std::memcpy(step.context.trace_id, record.context_trace_id, sizeof(step.context.trace_id));
      std::memcpy(step.context.span_id, record.context_span_id, sizeof(step.context.span_id));
      step.links = links.read(record.links_payload, record.links_count);
      steps.push_back(std::move(step));
    }
  }
  for (const std::size_t index : open_steps) steps[index].end_ns = times.last_ns();
  std::stable_sort(steps.begin(), steps.end(),
                   [](const Step& a, const Step& b) { return a.start_ns < b.start_ns; });
  return steps;
}

}  // namespace torchprof
