// The attributes of a span, of an event and of a link: the one mapping that the protobuf encoder, the size
// bound and the Python view share. A sink offers text, integer, flag, texts and integers, each with a name
// and a value that lives for the call only.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "spans/attribute_names.h"
#include "spans/device_work.h"
#include "spans/event_kinds.h"
#include "spans/input_attributes.h"
#include "spans/launch_queue.h"
#include "spans/plan.h"
#include "spans/plan_builder.h"
#include "spans/utf8.h"

namespace torchprof {

namespace detail {

inline constexpr LinkKind kLinkKindsOnSpans[] = {LinkKind::kForwardBackward, LinkKind::kLaunch,
                                                 LinkKind::kCrossing, LinkKind::kOther};

// `aten::add (12)`, dearest first.
template <class Sink>
void visit_name_counts(const SpanPlan& plan, std::string_view attribute, const std::vector<NameCount>& counts,
                       Sink& sink) {
  std::array<std::string, kMaxTopNames> texts;
  std::array<std::string_view, kMaxTopNames> views;
  std::size_t size = 0;
  for (const NameCount& count : counts) {
    texts[size] = plan.names.text(count.text_id);
    texts[size] += " (" + std::to_string(count.count) + ")";
    views[size] = texts[size];
    ++size;
  }
  if (size != 0) sink.texts(attribute, std::span<const std::string_view>(views.data(), size));
}

template <class Sink>
void visit_clean_text(std::string_view attribute, std::string_view text, Sink& sink) {
  if (is_clean_utf8(text)) {
    sink.text(attribute, cut_to_bytes(text, kMaxValueBytes));
  } else {
    const std::string clean = clean_utf8(text);
    sink.text(attribute, cut_to_bytes(clean, kMaxValueBytes));
  }
}

template <class Sink>
void visit_thread(const SpanPlan& plan, std::uint32_t track, Sink& sink) {
  sink.integer(attributes::kThreadId, plan.recording.tracks[track].thread_id);
  if (!plan.track_names[track].empty()) sink.text(attributes::kThreadName, plan.track_names[track]);
}

// Where a function is defined, given as `file:line`.
template <class Sink>
void visit_place(std::string_view place, Sink& sink) {
  const std::size_t colon = place.rfind(':');
  std::int64_t line = 0;
  if (colon == std::string_view::npos) return;
  const std::string_view digits = place.substr(colon + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), line);
  if (error != std::errc() || end != digits.data() + digits.size()) return;
  visit_clean_text(attributes::kCodeFilePath, place.substr(0, colon), sink);
  sink.integer(attributes::kCodeLineNumber, line);
}

template <class Sink>
void visit_function(const SpanPlan& plan, std::uint32_t function, Sink& sink) {
  const StringPool& strings = plan.recording.strings;
  if (!strings.name(function).empty()) {
    visit_clean_text(attributes::kCodeFunctionName, strings.name(function), sink);
  }
  visit_place(strings.overload(function), sink);
}

template <class Sink>
void visit_stream(const SpanPlan& plan, std::uint32_t index, Sink& sink) {
  const Track& track = plan.recording.tracks[index];
  if (track.device >= 0) sink.integer(attributes::kCudaDeviceIndex, track.device);
  if (track.kind == TrackKind::kStream) sink.integer(attributes::kCudaStreamId, track.thread_id);
}

template <class Sink>
void visit_inputs(const SpanPlan& plan, std::uint64_t row, Sink& sink) {
  const InputTexts inputs = describe_inputs(plan.recording, row);
  if (inputs.shapes.empty()) return;
  sink.text(attributes::kInputShapes, inputs.shapes);
  sink.text(attributes::kInputTypes, inputs.types);
  if (!inputs.strides.empty()) sink.text(attributes::kInputStrides, inputs.strides);
  if (!inputs.values.empty()) sink.text(attributes::kInputValues, inputs.values);
  if (inputs.cut) sink.flag(attributes::kInputCut, true);
}

// Of a module call, and of what is part of one.
template <class Sink>
void visit_module(const SpanPlan& plan, const PlannedSpan& span, Sink& sink) {
  const std::string_view path = plan.recording.strings.overload(span.module);
  if (!path.empty()) visit_clean_text(attributes::kModulePath, path, sink);
  const EventTable& events = plan.recording.events;
  if (events.kind[span.event] != static_cast<std::uint8_t>(EventKind::kModule)) return;
  const std::uint16_t mode = events.flags[span.event] & (kFlagTraining | kFlagEvaluation);
  if (mode != 0) sink.flag(attributes::kModuleTraining, mode == kFlagTraining);
}

template <class Sink>
void visit_host_event(const SpanPlan& plan, const PlannedSpan& span, Sink& sink) {
  const EventTable& events = plan.recording.events;
  const std::uint64_t row = span.event;
  const auto kind = static_cast<EventKind>(events.kind[row]);
  const std::uint16_t flags = events.flags[row];
  visit_thread(plan, span.track, sink);
  if (kind == EventKind::kOp || kind == EventKind::kUser) {
    sink.text(attributes::kScope, scope_name(events.scope[row]));
  } else {
    sink.text(attributes::kEventKind, kind_name(kind));
  }
  const std::string_view overload = plan.recording.strings.overload(events.name[row]);
  if (!overload.empty() && kind != EventKind::kPython && kind != EventKind::kModule) {
    visit_clean_text(attributes::kOpOverload, overload, sink);
  }
  if (span.function != PlannedSpan::kNone) visit_function(plan, span.function, sink);
  if (span.module != PlannedSpan::kNone) visit_module(plan, span, sink);
  sink.integer(attributes::kSelfTimeNs, span.self_ns);
  if (events.sequence[row] >= 0) sink.integer(attributes::kSequenceNumber, events.sequence[row]);
  const bool linked_to_backward =
      (span.link_kinds & (1U << static_cast<unsigned>(LinkKind::kForwardBackward))) != 0;
  if (events.forward_thread[row] != 0) {
    sink.integer(attributes::kForwardThreadId, events.forward_thread[row]);
  } else if (linked_to_backward) {
    sink.integer(attributes::kAutogradThreadId,
                 static_cast<std::int64_t>(plan.recording.tracks[span.track].torch_thread_id));
  }
  if ((flags & kFlagAsync) != 0) sink.flag(attributes::kAsync, true);
  if ((flags & kFlagOtherThread) != 0 && events.end_track[row] < plan.recording.tracks.size()) {
    sink.integer(attributes::kEndThreadId, plan.recording.tracks[events.end_track[row]].thread_id);
  }
  if (events.payload[row] != 0) visit_inputs(plan, row, sink);
}

template <class Sink>
void visit_dimensions(std::string_view attribute, const std::uint32_t (&dimensions)[3], Sink& sink) {
  if (dimensions[0] == 0) return;
  const std::int64_t values[] = {dimensions[0], dimensions[1], dimensions[2]};
  sink.integers(attribute, std::span<const std::int64_t>(values));
}

template <class Sink>
void visit_device_record(const SpanPlan& plan, std::uint64_t row, Sink& sink) {
  const DeviceRecord* device = find_device_record(plan.recording, row);
  if (device == nullptr) return;
  visit_dimensions(attributes::kKernelGrid, device->grid, sink);
  visit_dimensions(attributes::kKernelBlock, device->block, sink);
  if (device->registers >= 0) sink.integer(attributes::kKernelRegisters, device->registers);
  if (device->shared_bytes >= 0) sink.integer(attributes::kKernelSharedMemoryBytes, device->shared_bytes);
  if (device->size_bytes >= 0) {
    sink.integer(attributes::kMemcpySizeBytes, device->size_bytes);
    const std::int64_t duration_ns = device_time_ns(plan.recording.events, row);
    if (duration_ns > 0) {
      sink.integer(attributes::kMemcpyBytesPerSecond, bytes_per_second(device->size_bytes, duration_ns));
    }
  }
  if (device->graph_id > 0) sink.integer(attributes::kGraphId, device->graph_id);
  if (device->graph_node_id > 0) sink.integer(attributes::kGraphNodeId, device->graph_node_id);
  if (device->wait_stream >= 0) sink.integer(attributes::kSyncStreamId, device->wait_stream);
  if (device->wait_event >= 0) sink.integer(attributes::kSyncEventId, device->wait_event);
  if (device->wait_correlation >= 0) sink.integer(attributes::kSyncCorrelationId, device->wait_correlation);
}

template <class Sink>
void visit_launch(const SpanPlan& plan, std::uint64_t row, Sink& sink) {
  const QueuedWork* work = find_queued_work(plan.queued, row);
  if (work == nullptr) return;
  sink.integer(attributes::kLaunchDelayNs, work->delay_ns);
  sink.integer(attributes::kLaunchQueueDepth, work->queue_depth);
}

template <class Sink>
void visit_event(const SpanPlan& plan, const PlannedSpan& span, Sink& sink) {
  const EventTable& events = plan.recording.events;
  const auto kind = static_cast<EventKind>(events.kind[span.event]);
  const SpanName& name = plan.names[span.name];
  if (!name.original.empty()) sink.text(attributes::kOriginalName, name.original);
  if (name.step_number) sink.integer(attributes::kStepNumber, *name.step_number);
  const bool on_device = is_device_work(kind) || plan.recording.tracks[span.track].kind == TrackKind::kStream;
  if (on_device) {
    sink.text(attributes::kEventKind, kind_name(kind));
    visit_stream(plan, span.track, sink);
    const std::int64_t correlation = events.correlation.empty() ? -1 : events.correlation[span.event];
    if (correlation >= 0) sink.integer(attributes::kCorrelationId, correlation);
    visit_device_record(plan, span.event, sink);
    visit_launch(plan, span.event, sink);
  } else {
    visit_host_event(plan, span, sink);
  }
  if ((events.flags[span.event] & kFlagUnfinished) != 0) sink.flag(attributes::kUnfinished, true);
}

template <class Sink>
void visit_root(const SpanPlan& plan, const PlannedSpan& span, Sink& sink) {
  const SpanRoot& root = plan.roots[span.root];
  if (root.number >= 0) sink.integer(attributes::kStepNumber, root.number);
  if (root.step >= 0) {
    const StepPhase phase = plan.recording.steps[static_cast<std::size_t>(root.step)].phase;
    if (phase != StepPhase::kUnknown) sink.text(attributes::kStepPhase, phase_name(phase));
    visit_thread(plan, span.track, sink);
  }
  if (!root.rows.empty()) sink.integer(attributes::kSelfTimeNs, span.self_ns);
  if (span.partial) sink.flag(attributes::kStepPartial, true);
}

// `forward_backward`, or with several `forward_backward,launch`.
template <class Sink>
void visit_link_kinds(const PlannedSpan& span, Sink& sink) {
  std::string kinds;
  for (const LinkKind kind : kLinkKindsOnSpans) {
    if ((span.link_kinds & (1U << static_cast<unsigned>(kind))) == 0) continue;
    if (!kinds.empty()) kinds += ',';
    kinds += link_kind_name(kind);
  }
  if (!kinds.empty()) sink.text(attributes::kLinkType, kinds);
}

template <class Sink>
void visit_work(const SpanPlan& plan, const LaunchedWork& work, Sink& sink) {
  if (work.correlation_ids.size() == 1) {
    sink.integer(attributes::kCorrelationId, work.correlation_ids.front());
  } else if (!work.correlation_ids.empty()) {
    sink.integers(attributes::kCorrelationIds, std::span<const std::int64_t>(work.correlation_ids));
  }
  sink.integer(attributes::kDeviceTimeNs, work.device_ns);
  sink.integer(attributes::kKernelCount, static_cast<std::int64_t>(work.kernels));
  visit_name_counts(plan, attributes::kKernelNames, work.names, sink);
}

template <class Sink>
void visit_memory(const SpanMemory& memory, Sink& sink) {
  if (memory.host.allocated_bytes != 0 || memory.host.freed_bytes != 0) {
    sink.integer(attributes::kMemoryAllocatedBytes, memory.host.allocated_bytes);
    sink.integer(attributes::kMemoryFreedBytes, memory.host.freed_bytes);
    sink.integer(attributes::kMemoryPeakBytes, memory.host.peak_bytes);
  }
  if (memory.devices.allocated_bytes != 0 || memory.devices.freed_bytes != 0) {
    sink.integer(attributes::kDeviceMemoryAllocatedBytes, memory.devices.allocated_bytes);
    sink.integer(attributes::kDeviceMemoryFreedBytes, memory.devices.freed_bytes);
    sink.integer(attributes::kDeviceMemoryPeakBytes, memory.devices.peak_bytes);
  }
  if (memory.failed_bytes != 0) sink.integer(attributes::kMemoryFailedBytes, memory.failed_bytes);
}

template <class Sink>
void visit_folded(const SpanPlan& plan, const FoldedEvents& folded, Sink& sink) {
  sink.integer(attributes::kFoldedCount, static_cast<std::int64_t>(folded.count));
  sink.integer(attributes::kFoldedTimeNs, folded.self_ns);
  if (folded.device_ns != 0) sink.integer(attributes::kFoldedDeviceTimeNs, folded.device_ns);
  visit_name_counts(plan, attributes::kFoldedNames, folded.names, sink);
}

template <class Sink>
void visit_counted(const SpanPlan& plan, const CountedOver& counted, Sink& sink) {
  for (const CounterTotal& total : counted.totals) {
    sink.integer(plan.counter_attributes[total.attribute], total.value);
  }
  std::vector<std::string_view> estimated;
  estimated.reserve(counted.estimated.size());
  for (const std::uint32_t attribute : counted.estimated) {
    estimated.push_back(plan.counter_attributes[attribute]);
  }
  if (!estimated.empty()) {
    sink.texts(attributes::kCpuEstimated, std::span<const std::string_view>(estimated));
  }
}

}  // namespace detail

template <class Sink>
void visit_attributes(const SpanPlan& plan, std::size_t index, Sink& sink) {
  const PlannedSpan& span = plan.spans[index];
  switch (span.type) {
    case SpanType::kRoot:
      detail::visit_root(plan, span, sink);
      break;
    case SpanType::kLane:
      detail::visit_stream(plan, span.track, sink);
      break;
    case SpanType::kEvent:
      detail::visit_event(plan, span, sink);
      break;
  }
  if (span.beside_step) sink.flag(attributes::kStepCrossing, true);
  if (span.error != PlannedSpan::kNone) sink.text(attributes::kErrorType, plan.error_type(span));
  detail::visit_link_kinds(span, sink);
  if (span.work != PlannedSpan::kNone) detail::visit_work(plan, plan.work[span.work], sink);
  if (span.memory != PlannedSpan::kNone) detail::visit_memory(plan.memory[span.memory], sink);
  if (span.folded != PlannedSpan::kNone) detail::visit_folded(plan, plan.folded[span.folded], sink);
  if (span.counted != PlannedSpan::kNone) detail::visit_counted(plan, plan.counted[span.counted], sink);
}

template <class Sink>
void visit_event_attributes(const SpanEvent& event, Sink& sink) {
  for (const auto& [name, value] : event.attributes) {
    if (const auto* number = std::get_if<std::int64_t>(&value)) {
      sink.integer(name, *number);
    } else {
      detail::visit_clean_text(name, std::get<std::string>(value), sink);
    }
  }
}

template <class Sink>
void visit_link_attributes(const SpanLink& link, Sink& sink) {
  sink.text(attributes::kLinkType, link_kind_name(link.kind));
}

}  // namespace torchprof
