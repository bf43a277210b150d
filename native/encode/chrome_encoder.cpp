#include "encode/chrome_encoder.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/counter_series.h"
#include "core/tree.h"
#include "encode/chrome_arguments.h"
#include "encode/chrome_ids.h"
#include "encode/chrome_layout.h"
#include "encode/chrome_links.h"
#include "encode/chrome_modules.h"
#include "encode/chrome_names.h"
#include "spans/event_kinds.h"

namespace torchprof {
namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;
constexpr std::string_view kMemoryTotalCategory = "memory_total";

std::string_view category_of(EventKind kind) {
  switch (kind) {
    case EventKind::kOp:
      return "cpu_op";
    case EventKind::kUser:
      return "user_annotation";
    case EventKind::kRuntime:
      return "cuda_runtime";
    case EventKind::kDriver:
      return "cuda_driver";
    case EventKind::kKernel:
      return "kernel";
    case EventKind::kMemcpy:
      return "gpu_memcpy";
    case EventKind::kMemset:
      return "gpu_memset";
    case EventKind::kSync:
      return "cuda_sync";
    case EventKind::kPython:
    case EventKind::kPythonC:
    case EventKind::kModule:
      return "python_function";
    case EventKind::kOverhead:
      return "overhead";
    case EventKind::kSpan:
      return "Trace";
    case EventKind::kAnnotation:
      return "gpu_user_annotation";
    case EventKind::kOther:
      break;
  }
  return "other";
}

std::string_view flow_category(LinkType type) {
  switch (type) {
    case LinkType::kForwardBackward:
      return "fwdbwd";
    case LinkType::kLaunch:
      return "ac2g";
    case LinkType::kOther:
      break;
  }
  return "link";
}

// What torch itself marks with user scopes. TensorBoard's plugin has views of them, but throws away all user
// annotations but steps.
bool was_op_in_2021(std::string_view name) {
  constexpr std::string_view kPrefixes[] = {"enumerate(DataLoader)#", "enumerate(DataPipe)#",
                                            "Optimizer.step"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

// Whole seconds before everything, so that times are short; 0 where something lies before 1970.
std::int64_t base_time_ns(const Recording& recording) {
  std::int64_t first_ns = recording.start_ns;
  for (const std::int64_t start_ns : recording.events.start_ns) first_ns = std::min(first_ns, start_ns);
  for (const Step& step : recording.steps) first_ns = std::min(first_ns, step.start_ns);
  if (!recording.memory.empty()) {
    first_ns = std::min(first_ns, static_cast<std::int64_t>(recording.memory.front().time));
  }
  if (!recording.counters.empty()) {
    first_ns = std::min(first_ns, static_cast<std::int64_t>(recording.counters.front().time));
  }
  return std::max<std::int64_t>(first_ns, 0) / kNsPerSecond * kNsPerSecond;
}

class ChromeEncoder {
 public:
  ChromeEncoder(const Recording& recording, const ChromeOptions& options, ChromeText::Sink sink)
      : recording_(recording),
        options_(options),
        events_(recording.events),
        base_ns_(base_time_ns(recording)),
        layout_(lay_out(recording)),
        tracks_(recording, layout_),
        tree_(build_tree(recording)),
        modules_(recording, tree_),
        flows_(chrome_flows(recording)),
        external_ids_(recording, tree_, flows_),
        arguments_(recording, layout_, tracks_, tree_, modules_, external_ids_, options.occupancy_percent,
                   options.categories_of_2021),
        text_(std::move(sink)) {}

  ChromeCounts encode() {
    text_.raw("{");
    text_.raw(options_.header);
    text_.raw(options_.header.empty() ? "\"baseTimeNanoseconds\":" : ",\n\"baseTimeNanoseconds\":");
    text_.integer(base_ns_);
    text_.raw(",\n\"traceEvents\":[");
    tracks_.write_metadata(text_, options_.process_names);
    // Before the events that they hold and may begin together with.
    if (!is_left_out(EventKind::kUser)) write_steps();
    write_events();
    write_flows();
    if (!is_left_out(EventKind::kOther)) write_memory();
    write_counters();
    text_.raw("\n]}\n");
    text_.flush();
    counts_.size_bytes = text_.size_bytes();
    return counts_;
  }

 private:
  void begin(std::string_view phase, std::string_view category) {
    text_.next_event();
    text_.raw("{\"ph\":\"");
    text_.raw(phase);
    text_.raw("\",\"cat\":\"");
    text_.raw(category);
    text_.raw("\",\"name\":");
  }

  void place(const std::string& fields, std::int64_t time_ns) {
    text_.raw(",");
    text_.raw(fields);
    text_.raw(",\"ts\":");
    text_.microseconds(time_ns - base_ns_);
  }

  void duration(std::int64_t duration_ns) {
    text_.raw(",\"dur\":");
    text_.microseconds(duration_ns);
  }

  void id(std::uint64_t number) {
    text_.raw(",\"id\":");
    text_.integer(static_cast<std::int64_t>(number));
  }

  void write_events() {
    for (std::uint64_t row = 0; row < events_.size(); ++row) {
      if (is_left_out(row)) continue;
      const bool is_async = layout_.lane[row] == kAsynchronous;
      const bool is_instant = (events_.flags[row] & kFlagInstant) != 0;
      const std::string_view phase = is_async ? (is_instant ? "n" : "b") : is_instant ? "i" : "X";
      const std::string_view category = category_of_row(row);
      begin(phase, category);
      const bool name_is_intact = write_name(row);
      if (is_async) id(row);
      if (phase == "i") text_.raw(",\"s\":\"t\"");
      place(tracks_.fields(events_.track[row], is_async ? kOnTrack : layout_.lane[row]),
            events_.start_ns[row]);
      if (phase == "X") duration(events_.end_ns[row] - events_.start_ns[row]);
      arguments_.write(text_, row, name_is_intact);
      text_.raw("}");
      if (phase == "b") write_async_end(row, category);
      is_instant ? ++counts_.instants : is_async ? ++counts_.async_events : ++counts_.slices;
    }
  }

  void write_async_end(std::uint64_t row, std::string_view category) {
    const bool elsewhere = (events_.flags[row] & kFlagOtherThread) != 0;
    begin("e", category);
    write_name(row);
    id(row);
    place(tracks_.fields(elsewhere ? events_.end_track[row] : events_.track[row], kOnTrack),
          events_.end_ns[row]);
    text_.raw("}");
  }

  std::string_view category_of_row(std::uint64_t row) {
    const auto kind = static_cast<EventKind>(events_.kind[row]);
    const bool is_instant_op = kind == EventKind::kOp && (events_.flags[row] & kFlagInstant) != 0;
    if (is_instant_op) return "cpu_instant_event";
    if (arguments_.is_counted_range(row)) return "cuda_profiler_range";
    if (options_.categories_of_2021) {
      if (is_call(events_.kind[row])) return "Runtime";
      if (kind == EventKind::kUser && was_op_in_2021(recording_.strings.name(events_.name[row])))
        return "cpu_op";
    }
    return category_of(kind);
  }

  bool write_name(std::uint64_t row) {
    const StringPool& strings = recording_.strings;
    const auto kind = static_cast<EventKind>(events_.kind[row]);
    const std::string_view name = strings.name(events_.name[row]);
    if (!is_python(kind)) return text_.string(name);
    if (const std::string_view module = modules_.class_of(row); !module.empty()) {
      return text_.string(chrome_name(EventKind::kModule, module, {}));
    }
    return text_.string(chrome_name(kind, name, strings.overload(events_.name[row])));
  }

  void write_steps() {
    const auto represented = represented_steps();
    for (std::size_t index = 0; index < recording_.steps.size(); ++index) {
      const Step& step = recording_.steps[index];
      if (step.number < 0 || represented.contains({step.track, step.start_ns, step.number})) continue;
      const std::string name = std::string(kStepPrefix) + std::to_string(step.number);
      const std::uint8_t lane = layout_.step_lane[index];
      const std::string& fields = tracks_.fields(step.track, lane == kAsynchronous ? kOnTrack : lane);
      const std::uint64_t number = events_.size() + index;
      begin(lane == kAsynchronous ? "b" : "X", category_of(EventKind::kUser));
      text_.string(name);
      if (lane == kAsynchronous) id(number);
      place(fields, step.start_ns);
      if (lane != kAsynchronous) duration(step.end_ns - step.start_ns);
      ArgumentList arguments(text_);
      arguments.integer("\"External id\":", external_ids_.of_step(index));
      arguments.integer("\"Record function id\":", 0);
      arguments.integer("\"Ev Idx\":", static_cast<std::int64_t>(number));
      // By these an importer knows that it is no event, and what thread it is of.
      arguments.next("\"Step phase\":").string(phase_name(step.phase));
      if ((step.flags & kStepPartial) != 0) arguments.next("\"Step partial\":").raw("true");
      if ((step.flags & kStepUnfinished) != 0) arguments.next("\"finished\":").raw("false");
      if (lane == kBesideTrack) arguments.next("\"On thread\":").raw(tracks_.thread(step.track));
      arguments.end();
      text_.raw("}");
      if (lane == kAsynchronous) {
        begin("e", category_of(EventKind::kUser));
        text_.string(name);
        id(number);
        place(fields, step.end_ns);
        text_.raw("}");
      }
      ++counts_.steps;
    }
  }

  // Steps that torch's profiler marked are events too: track, start and number of those.
  std::set<std::tuple<std::uint32_t, std::int64_t, std::int64_t>> represented_steps() const {
    std::set<std::tuple<std::uint32_t, std::int64_t, std::int64_t>> found;
    if (recording_.steps.empty()) return found;
    std::vector<std::int64_t> number_of_name(recording_.strings.size(), -1);
    for (std::uint32_t id = 0; id < number_of_name.size(); ++id) {
      const std::string_view name = recording_.strings.name(id);
      if (!name.starts_with(kStepPrefix)) continue;
      const std::string_view digits = name.substr(kStepPrefix.size());
      std::int64_t number = -1;
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
      if (error == std::errc() && end == digits.data() + digits.size()) number_of_name[id] = number;
    }
    for (std::uint64_t row = 0; row < events_.size(); ++row) {
      const std::int64_t number = number_of_name[events_.name[row]];
      if (number >= 0) found.emplace(events_.track[row], events_.start_ns[row], number);
    }
    return found;
  }

  // Both ends at the start of their slices, where readers look for the slices they are bound to. What is no
  // slice cannot be bound to.
  void write_flows() {
    for (std::size_t index = 0; index < flows_.size(); ++index) {
      const ChromeFlow& flow = flows_[index];
      if (!is_slice(flow.from) || !is_slice(flow.to)) continue;
      const bool is_old = options_.categories_of_2021 && flow.type == LinkType::kForwardBackward;
      const std::string_view category = is_old ? "forward_backward" : flow_category(flow.type);
      write_flow_end("s", category, index, flow.from);
      text_.raw("}");
      write_flow_end("f", category, index, flow.to);
      text_.raw(",\"bp\":\"e\"}");
      ++counts_.flows;
    }
  }

  void write_flow_end(std::string_view phase, std::string_view category, std::size_t index,
                      std::uint64_t row) {
    begin(phase, category);
    text_.string(category);
    id(index + 1);
    place(tracks_.fields(events_.track[row], layout_.lane[row]), events_.start_ns[row]);
  }

  bool is_slice(std::uint64_t row) const {
    return layout_.lane[row] != kAsynchronous && (events_.flags[row] & kFlagInstant) == 0 &&
           !is_left_out(row);
  }

  bool is_left_out(std::uint64_t row) const { return is_left_out(static_cast<EventKind>(events_.kind[row])); }

  bool is_left_out(EventKind kind) const {
    const auto& kinds = options_.left_out_kinds;
    return std::find(kinds.begin(), kinds.end(), static_cast<std::uint8_t>(kind)) != kinds.end();
  }

  void write_memory() {
    for (std::size_t index = 0; index < recording_.memory.size(); ++index) {
      const MemoryRecord& memory = recording_.memory[index];
      const bool failed = (memory.flags & kMemoryOutOfMemory) != 0;
      begin("i", "cpu_instant_event");
      text_.raw(failed ? "\"[OutOfMemory]\"" : "\"[memory]\"");
      text_.raw(",\"s\":\"t\"");
      place(tracks_.fields(memory.track, kOnTrack), static_cast<std::int64_t>(memory.time));
      ArgumentList arguments(text_);
      arguments.integer_if_known("\"Total Reserved\":", memory.total_reserved_bytes);
      arguments.integer_if_known("\"Total Allocated\":", memory.total_allocated_bytes);
      arguments.integer("\"Bytes\":", memory.size_bytes);
      if (memory.address != 0) arguments.next("\"Addr\":").raw(std::to_string(memory.address));
      arguments.integer("\"Device Id\":", memory.device);
      arguments.integer("\"Device Type\":", memory.device_type);
      arguments.integer("\"Ev Idx\":",
                        static_cast<std::int64_t>(events_.size() + recording_.steps.size() + index));
      arguments.end();
      text_.raw("}");
      ++counts_.instants;
      if (memory.total_allocated_bytes >= 0 && memory.size_bytes != 0 && !failed) write_memory_total(memory);
    }
  }

  // The total once more, as a curve: viewers draw no instants as one. Its category keeps it from being taken
  // for a counter that somebody read.
  void write_memory_total(const MemoryRecord& memory) {
    begin("C", kMemoryTotalCategory);
    const bool on_host = memory.device_type == 0;
    text_.string(on_host ? "CPU memory" : "device " + std::to_string(memory.device) + " memory");
    place(tracks_.fields(memory.track, kOnTrack), static_cast<std::int64_t>(memory.time));
    text_.raw(",\"args\":{\"allocated\":");
    text_.integer(memory.total_allocated_bytes);
    text_.raw("}}");
    ++counts_.counters;
  }

  // Those of events are among the arguments of the events.
  void write_counters() {
    for (const CounterRecord& counter : recording_.counters) {
      if (counter.event >= 0) continue;
      text_.next_event();
      text_.raw("{\"ph\":\"C\",\"name\":");
      text_.string(recording_.strings.name(counter.name));
      const std::string_view series = recording_.strings.overload(counter.name);
      // Readers tell the counters of a process apart by name and id, not by thread.
      if (is_counted(series)) id(static_cast<std::uint64_t>(recording_.tracks[counter.track].thread_id));
      place(tracks_.fields(counter.track, kOnTrack), static_cast<std::int64_t>(counter.time));
      text_.raw(",\"args\":{");
      text_.string(series.empty() ? "value" : series);
      text_.raw(":");
      text_.number(counter.value);
      text_.raw("}}");
      ++counts_.counters;
    }
  }

  const Recording& recording_;
  const ChromeOptions& options_;
  const EventTable& events_;
  std::int64_t base_ns_;
  ChromeLayout layout_;
  ChromeTracks tracks_;
  Tree tree_;
  ModuleCalls modules_;
  std::vector<ChromeFlow> flows_;
  ExternalIds external_ids_;
  ChromeArguments arguments_;
  ChromeText text_;
  ChromeCounts counts_;
};

}  // namespace

ChromeCounts encode_chrome(const Recording& recording, const ChromeOptions& options, ChromeText::Sink sink) {
  return ChromeEncoder(recording, options, std::move(sink)).encode();
}

}  // namespace torchprof
