#include "encode/chrome_arguments.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

#include "core/counter_series.h"
#include "core/inputs_decoder.h"
#include "encode/chrome_inputs.h"
#include "encode/chrome_names.h"

namespace torchprof {
namespace {

void write_dimensions(ArgumentList& arguments, std::string_view quoted_name, const std::uint32_t (&size)[3]) {
  if (size[0] == 0) return;
  ChromeText& text = arguments.next(quoted_name);
  text.raw("[");
  text.integer(size[0]);
  text.raw(",");
  text.integer(size[1]);
  text.raw(",");
  text.integer(size[2]);
  text.raw("]");
}

void write_real(ArgumentList& arguments, std::string_view quoted_name, float value) {
  if (std::isfinite(value)) arguments.next(quoted_name).number(value);
}

}  // namespace

std::vector<const CounterRecord*> ChromeArguments::counters_of_events() const {
  std::vector<const CounterRecord*> counters;
  for (const CounterRecord& counter : recording_.counters) {
    if (counter.event >= 0) counters.push_back(&counter);
  }
  std::stable_sort(counters.begin(), counters.end(),
                   [](const CounterRecord* a, const CounterRecord* b) { return a->event < b->event; });
  return counters;
}

void ChromeArguments::write(ChromeText& text, std::uint64_t row, bool name_is_intact) {
  advance(row);
  ArgumentList arguments(text);
  // First: should one of them be called like one of ours, readers take the last.
  write_others(arguments, row);
  switch (static_cast<EventKind>(recording_.events.kind[row])) {
    case EventKind::kOp:
    case EventKind::kUser:
      write_op(arguments, row);
      break;
    case EventKind::kPython:
    case EventKind::kPythonC:
    case EventKind::kModule:
      write_python(arguments, row);
      break;
    case EventKind::kRuntime:
    case EventKind::kDriver:
      write_call(arguments, row);
      break;
    case EventKind::kKernel:
    case EventKind::kMemcpy:
    case EventKind::kMemset:
      write_work(arguments, row);
      break;
    case EventKind::kAnnotation:
      if (!is_counted_range(row)) write_work(arguments, row);
      break;
    case EventKind::kSync:
      write_sync(arguments, row);
      break;
    case EventKind::kOverhead:
    case EventKind::kSpan:
    case EventKind::kOther:
      break;
  }
  const bool has_only_counters = is_counted_range(row);
  write_counters(arguments, row);
  const std::uint32_t name = recording_.events.name[row];
  const std::string_view overload = recording_.strings.overload(name);
  const auto kind = static_cast<EventKind>(recording_.events.kind[row]);
  if (!overload.empty() && !chrome_name_holds_overload(kind, overload)) {
    arguments.next("\"Overload name\":").string(overload);
  }
  if (!name_is_intact) arguments.next("\"Name bytes\":").hexadecimal(recording_.strings.name(name));
  if ((recording_.events.flags[row] & kFlagUnfinished) != 0) arguments.next("\"finished\":").raw("false");
  write_placement(arguments, row);
  // Every number beside counters is taken for one more of them.
  if (!has_only_counters) arguments.integer("\"Ev Idx\":", static_cast<std::int64_t>(row));
  arguments.end();
}

// What was set aside because it crosses a slice: by these an importer puts it back.
void ChromeArguments::write_placement(ArgumentList& arguments, std::uint64_t row) const {
  const std::uint32_t track = recording_.events.track[row];
  const std::uint8_t lane = layout_.lane[row];
  if (lane == kAsynchronous) {
    if ((recording_.events.flags[row] & kFlagAsync) == 0) arguments.next("\"Synchronous\":").raw("true");
  } else if (lane != kOnTrack && recording_.tracks[track].kind != TrackKind::kStream) {
    arguments.next("\"On thread\":").raw(tracks_.thread(track));
  }
}

void ChromeArguments::advance(std::uint64_t row) {
  const std::vector<DeviceRecord>& devices = recording_.devices;
  while (next_device_ < devices.size() && devices[next_device_].event < row) ++next_device_;
  const bool is_there = next_device_ < devices.size() && devices[next_device_].event == row;
  device_ = is_there ? &devices[next_device_] : nullptr;
}

void ChromeArguments::write_op(ArgumentList& arguments, std::uint64_t row) const {
  const EventTable& events = recording_.events;
  arguments.integer("\"External id\":", external_ids_.of(row));
  arguments.integer("\"Record function id\":", 0);  // only torch's execution trace observer gives others
  if (events.sequence[row] >= 0) {
    arguments.integer("\"Sequence number\":", events.sequence[row]);
    arguments.integer("\"Fwd thread id\":", events.forward_thread[row]);
  }
  if (events.payload[row] != 0) write_inputs(arguments, row);
  if (with_call_stacks_) write_call_stack(arguments, row);
}

bool ChromeArguments::has_functions(const Recording& recording) {
  const std::vector<std::uint8_t>& kinds = recording.events.kind;
  return std::find(kinds.begin(), kinds.end(), static_cast<std::uint8_t>(EventKind::kPython)) != kinds.end();
}

void ChromeArguments::write_call_stack(ArgumentList& arguments, std::uint64_t row) const {
  constexpr std::size_t kMaxFunctions = 64;  // the text of one op must not be longer than a page
  const EventTable& events = recording_.events;
  std::string stack;
  std::size_t functions = 0;
  for (std::int64_t at = tree_.parent[row]; at >= 0 && functions < kMaxFunctions;
       at = tree_.parent[static_cast<std::size_t>(at)]) {
    const auto frame = static_cast<std::size_t>(at);
    if (events.kind[frame] != static_cast<std::uint8_t>(EventKind::kPython)) continue;
    const std::uint32_t name = events.name[frame];
    if (functions++ != 0) stack += ';';
    stack +=
        chrome_name(EventKind::kPython, recording_.strings.name(name), recording_.strings.overload(name));
  }
  if (functions != 0) arguments.next("\"Call stack\":").string(stack);
}

void ChromeArguments::write_inputs(ArgumentList& arguments, std::uint64_t row) const {
  const std::span<const std::uint8_t> encoded = encoded_inputs(recording_, row);
  if (encoded.empty()) return;
  const ChromeInputs inputs = describe_for_chrome(encoded);
  if (!inputs.concrete.empty()) arguments.next("\"Concrete Inputs\":").raw(inputs.concrete);
  arguments.next("\"Input type\":").raw(inputs.types);
  if (!inputs.strides.empty()) arguments.next("\"Input Strides\":").raw(inputs.strides);
  arguments.next("\"Input Dims\":").raw(inputs.sizes);
}

void ChromeArguments::write_python(ArgumentList& arguments, std::uint64_t row) const {
  const EventTable& events = recording_.events;
  std::int64_t parent = tree_.parent[row];
  while (parent >= 0 && !is_python(static_cast<EventKind>(events.kind[static_cast<std::size_t>(parent)]))) {
    parent = tree_.parent[static_cast<std::size_t>(parent)];
  }
  // Python's ids count from 1.
  if (parent >= 0) {
    arguments.integer("\"Python parent id\":", parent + 1);
  } else {
    arguments.next("\"Python parent id\":").raw("null");
  }
  arguments.integer("\"Python id\":", static_cast<std::int64_t>(row) + 1);
  if (events.kind[row] == static_cast<std::uint8_t>(EventKind::kModule)) {
    arguments.integer("\"Python module id\":", events.name[row]);
    const std::uint16_t mode = events.flags[row] & (kFlagTraining | kFlagEvaluation);
    if (mode != 0) arguments.next("\"Training\":").raw(mode == kFlagTraining ? "true" : "false");
  } else if (!modules_.class_of(row).empty()) {
    arguments.integer("\"Python module id\":", modules_.number_of(row));
    const StringPool& strings = recording_.strings;
    const std::uint32_t name = events.name[row];
    // By this an importer knows the function again.
    arguments.next("\"Python function\":")
        .string(chrome_name(EventKind::kPython, strings.name(name), strings.overload(name)));
  }
}

void ChromeArguments::write_call(ArgumentList& arguments, std::uint64_t row) const {
  arguments.integer_if_known("\"External id\":", external_ids_.of(row));
  if (device_ != nullptr) arguments.integer_if_known("\"cbid\":", device_->callback_id);
  arguments.integer_if_known("\"correlation\":", correlation(row));
}

void ChromeArguments::write_work(ArgumentList& arguments, std::uint64_t row) const {
  arguments.integer_if_known("\"External id\":", external_ids_.of(row));
  if (device_ == nullptr) {
    arguments.integer_if_known("\"correlation\":", correlation(row));
    return;
  }
  const DeviceRecord& device = *device_;
  const EventTable& events = recording_.events;
  // Kineto never has another value.
  if (events.kind[row] == static_cast<std::uint8_t>(EventKind::kKernel)) arguments.integer("\"queued\":", 0);
  arguments.integer_if_known("\"device\":", device.device);
  arguments.integer_if_known("\"context\":", device.context);
  arguments.integer_if_known("\"stream\":", device.stream);
  arguments.integer_if_known("\"correlation\":", correlation(row));
  arguments.integer_if_known("\"graph id\":", device.graph_id);
  arguments.integer_if_known("\"graph node id\":", device.graph_node_id);
  arguments.integer_if_known("\"registers per thread\":", device.registers);
  arguments.integer_if_known("\"shared memory\":", device.shared_bytes);
  write_real(arguments, "\"blocks per SM\":", device.blocks_per_sm);
  write_real(arguments, "\"warps per SM\":", device.warps_per_sm);
  write_dimensions(arguments, "\"grid\":", device.grid);
  write_dimensions(arguments, "\"block\":", device.block);
  write_real(arguments, "\"est. achieved occupancy %\":", occupancy_percent());
  arguments.integer_if_known("\"priority\":", device.priority);
  if (device.size_bytes < 0) return;
  arguments.integer("\"bytes\":", device.size_bytes);
  const std::int64_t duration_ns = events.end_ns[row] - events.start_ns[row];
  if (duration_ns > 0) {
    arguments.next("\"memory bandwidth (GB/s)\":")
        .number(static_cast<double>(device.size_bytes) / static_cast<double>(duration_ns));
  }
}

float ChromeArguments::occupancy_percent() const {
  if (occupancy_percent_.size() != recording_.devices.size()) return device_->occupancy_percent;
  return occupancy_percent_[static_cast<std::size_t>(device_ - recording_.devices.data())];
}

void ChromeArguments::write_sync(ArgumentList& arguments, std::uint64_t row) const {
  const std::uint32_t name = recording_.events.name[row];
  arguments.next("\"cuda_sync_kind\":").string(recording_.strings.name(name));
  if (device_ != nullptr && device_->wait_correlation >= 0) {
    arguments.integer_if_known("\"wait_on_stream\":", device_->wait_stream);
    arguments.integer("\"wait_on_cuda_event_record_corr_id\":", device_->wait_correlation);
    arguments.integer_if_known("\"wait_on_cuda_event_id\":", device_->wait_event);
  }
  write_work(arguments, row);
}

bool ChromeArguments::is_counted_range(std::uint64_t row) {
  return recording_.events.kind[row] == static_cast<std::uint8_t>(EventKind::kAnnotation) &&
         has_counters(row);
}

bool ChromeArguments::has_counters(std::uint64_t row) {
  const auto event = static_cast<std::int64_t>(row);
  while (next_counter_ < counters_.size() && counters_[next_counter_]->event < event) ++next_counter_;
  return next_counter_ < counters_.size() && counters_[next_counter_]->event == event;
}

// Those that we read ourselves are together in an object of their own; others may have any name.
void ChromeArguments::write_counters(ArgumentList& arguments, std::uint64_t row) {
  if (!has_counters(row)) return;
  const auto event = static_cast<std::int64_t>(row);
  const std::size_t first = next_counter_;
  while (next_counter_ < counters_.size() && counters_[next_counter_]->event == event) ++next_counter_;
  const std::span counters(counters_.data() + first, next_counter_ - first);
  for (const CounterRecord* counter : counters) {
    if (!is_counted(recording_.strings.overload(counter->name))) write_counter(arguments.next(""), *counter);
  }
  write_counted(arguments, "\"Counters\":", kCounted, counters);
  write_counted(arguments, "\"Estimated counters\":", kEstimated, counters);
}

void ChromeArguments::write_counted(ArgumentList& arguments, std::string_view quoted_name,
                                    std::string_view series,
                                    std::span<const CounterRecord* const> counters) const {
  ChromeText* text = nullptr;
  for (const CounterRecord* counter : counters) {
    if (recording_.strings.overload(counter->name) != series) continue;
    const bool is_first = text == nullptr;
    if (is_first) text = &arguments.next(quoted_name);
    text->raw(is_first ? "{" : ",");
    write_counter(*text, *counter);
  }
  if (text != nullptr) text->raw("}");
}

void ChromeArguments::write_counter(ChromeText& text, const CounterRecord& counter) const {
  text.string(recording_.strings.name(counter.name));
  text.raw(":");
  text.number(counter.value);
}

void ChromeArguments::write_others(ArgumentList& arguments, std::uint64_t row) {
  const std::vector<ArgumentsRecord>& others = recording_.arguments;
  while (next_other_ < others.size() && others[next_other_].event < row) ++next_other_;
  for (; next_other_ < others.size() && others[next_other_].event == row; ++next_other_) {
    std::string_view members = recording_.strings.name(others[next_other_].text);
    members.remove_prefix(members.find('{') + 1);
    members.remove_suffix(members.size() - members.rfind('}'));
    if (members.find('"') != std::string_view::npos) arguments.next(members);
  }
}

std::int64_t ChromeArguments::correlation(std::uint64_t row) const {
  const EventTable& events = recording_.events;
  return events.correlation.empty() ? -1 : events.correlation[row];
}

}  // namespace torchprof
