#include "core/builder.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

#include "core/inputs_encoding.h"
#include "core/json_scanner.h"
#include "core/scope_frames.h"
#include "core/side_table_order.h"
#include "core/step_phases.h"

namespace torchprof {
namespace {

// Offset 0 means "no payload", so the first real one starts after a blank.
std::shared_ptr<std::vector<std::uint8_t>> blank_payload() {
  return std::make_shared<std::vector<std::uint8_t>>(kPayloadAlignBytes);
}

}  // namespace

RecordingBuilder::RecordingBuilder() : payload_(blank_payload()) {}

std::uint32_t RecordingBuilder::add_string(std::string_view name, std::string_view overload) {
  if (name.empty() && overload.empty()) return 0;
  constexpr std::size_t kMaxBytes = std::numeric_limits<std::uint32_t>::max();
  if (name.size() > kMaxBytes || overload.size() > kMaxBytes)
    throw std::invalid_argument("string over 4 GiB");
  // The length in front keeps ("ab", "c") apart from ("a", "bc").
  std::string key(sizeof(std::uint32_t), '\0');
  const auto name_bytes = static_cast<std::uint32_t>(name.size());
  std::memcpy(key.data(), &name_bytes, sizeof(name_bytes));
  key.append(name).append(overload);
  const auto [entry, inserted] = string_ids_.try_emplace(std::move(key), 0);
  if (inserted) entry->second = recording_.strings.add(name, overload);
  return entry->second;
}

std::uint32_t RecordingBuilder::add_track(Track track) {
  if (track.name.size() > kMaxTrackNameBytes) track.name.resize(kMaxTrackNameBytes);
  recording_.tracks.push_back(std::move(track));
  return static_cast<std::uint32_t>(recording_.tracks.size() - 1);
}

std::uint64_t RecordingBuilder::add_event(const BuilderEvent& event, std::span<const std::uint8_t> inputs) {
  require_time_range(event.start_ns, event.end_ns);
  require_track(event.track);
  if ((event.flags & kFlagOtherThread) != 0) require_track(event.end_track);
  if (std::max(event.name, event.error) >= recording_.strings.size())
    throw std::invalid_argument("name is no string of this builder");
  if (event.kind > EventKind::kOther) throw std::invalid_argument("unknown event kind");
  if (event.payload >= payload_->size()) throw std::invalid_argument("payload is none of this builder");

  EventTable& events = recording_.events;
  const std::uint64_t payload = inputs.empty() ? event.payload : add_payload(inputs);
  if (event.correlation >= 0 && events.correlation.empty()) events.correlation.assign(events.size(), -1);
  if (event.correlation >= 0 || !events.correlation.empty()) events.correlation.push_back(event.correlation);
  if (event.error != 0 && events.error.empty()) events.error.assign(events.size(), 0);
  if (event.error != 0 || !events.error.empty()) events.error.push_back(event.error);
  events.start_ns.push_back(event.start_ns);
  events.end_ns.push_back(event.end_ns);
  events.name.push_back(event.name);
  events.track.push_back(event.track);
  events.kind.push_back(static_cast<std::uint8_t>(event.kind));
  events.scope.push_back(event.scope);
  events.flags.push_back(event.flags);
  events.sequence.push_back(event.sequence);
  events.forward_thread.push_back(event.forward_thread);
  events.end_track.push_back((event.flags & kFlagOtherThread) != 0 ? event.end_track : 0);
  events.payload.push_back(payload);
  cover(event.start_ns, event.end_ns);
  return events.size() - 1;
}

std::uint64_t RecordingBuilder::add_payload(std::span<const std::uint8_t> inputs) {
  const std::uint64_t payload = payload_->size();
  const auto byte_count = static_cast<std::uint32_t>(inputs.size());
  const auto aligned = (payload + sizeof(byte_count) + inputs.size() + kPayloadAlignBytes - 1) /
                       kPayloadAlignBytes * kPayloadAlignBytes;
  payload_->resize(aligned);
  std::memcpy(payload_->data() + payload, &byte_count, sizeof(byte_count));
  if (!inputs.empty()) {
    std::memcpy(payload_->data() + payload + sizeof(byte_count), inputs.data(), inputs.size());
  }
  return payload;
}

void RecordingBuilder::add_device(const DeviceRecord& record) {
  if (record.event >= recording_.events.size()) throw std::invalid_argument("device row of no event");
  recording_.devices.push_back(record);
}

void RecordingBuilder::add_counter(const CounterRecord& record) {
  require_event_or_none(record.event);
  require_track(record.track);
  if (record.name >= recording_.strings.size())
    throw std::invalid_argument("name is no string of this builder");
  const auto time_ns = static_cast<std::int64_t>(record.time);
  cover(time_ns, time_ns);
  recording_.counters.push_back(record);
}

void RecordingBuilder::add_memory(const MemoryRecord& record) {
  require_event_or_none(record.event);
  require_track(record.track);
  const auto time_ns = static_cast<std::int64_t>(record.time);
  cover(time_ns, time_ns);
  recording_.memory.push_back(record);
  if (record.size_bytes < 0) recording_.memory.back().flags |= kMemoryFree;
}

void RecordingBuilder::add_tensor_role(const TensorRoleRecord& record) {
  if (record.name >= recording_.strings.size()) {
    throw std::invalid_argument("name is no string of this builder");
  }
  const auto time_ns = static_cast<std::int64_t>(record.time);
  cover(time_ns, time_ns);
  recording_.tensor_roles.push_back(record);
}

void RecordingBuilder::add_arguments(const ArgumentsRecord& record) {
  if (record.event >= recording_.events.size()) throw std::invalid_argument("arguments of no event");
  if (record.text >= recording_.strings.size()) {
    throw std::invalid_argument("arguments that are no string of this builder");
  }
  if (are_arguments_.size() <= record.text) are_arguments_.resize(recording_.strings.size());
  const std::string_view text = recording_.strings.name(record.text);
  if (!are_arguments_[record.text] && (text.size() > kMaxArgumentsBytes || !is_json_object(text))) {
    throw std::invalid_argument("arguments that are no JSON object, or too long");
  }
  are_arguments_[record.text] = true;
  recording_.arguments.push_back(record);
}

void RecordingBuilder::add_step(Step step) {
  require_time_range(step.start_ns, step.end_ns);
  require_track(step.track);
  cover(step.start_ns, step.end_ns);
  recording_.steps.push_back(std::move(step));
}

void RecordingBuilder::add_link(std::uint64_t from_event, std::uint64_t to_event, LinkType type) {
  if (std::max(from_event, to_event) >= recording_.events.size()) {
    throw std::invalid_argument("link from or to an event that does not exist");
  }
  recording_.links.from.push_back(from_event);
  recording_.links.to.push_back(to_event);
  recording_.links.type.push_back(static_cast<std::uint32_t>(type));
}

void RecordingBuilder::add_metadata(std::string_view json_object) {
  // One object a line is how it is stored.
  if (json_object.find('\n') != std::string_view::npos)
    throw std::invalid_argument("metadata with a line break");
  if (!json_object.empty()) recording_.metadata_json.emplace_back(json_object);
}

void RecordingBuilder::add_drops(DropReason reason, std::uint64_t count) {
  if (reason >= DropReason::kCount) throw std::invalid_argument("unknown drop reason");
  recording_.drops[static_cast<std::size_t>(reason)] += count;
}

void RecordingBuilder::set_process(std::uint64_t process_id, std::uint64_t process_instance) {
  recording_.process_id = process_id;
  recording_.process_instance = process_instance;
}

void RecordingBuilder::set_stopped(bool stopped) { recording_.stopped = stopped; }

void RecordingBuilder::cover(std::int64_t start_ns, std::int64_t end_ns) {
  require_time_range(start_ns, end_ns);
  if (!std::exchange(covers_something_, true)) {
    recording_.start_ns = start_ns;
    recording_.end_ns = end_ns;
  }
  recording_.start_ns = std::min(recording_.start_ns, start_ns);
  recording_.end_ns = std::max(recording_.end_ns, end_ns);
}

Recording RecordingBuilder::finish() {
  Recording recording = std::move(recording_);
  order_recording(recording);
  cut_frames_at_scopes(recording);
  std::stable_sort(recording.steps.begin(), recording.steps.end(),
                   [](const Step& a, const Step& b) { return a.start_ns < b.start_ns; });
  find_step_phases(recording);
  recording.clock_start = {.ticks = static_cast<std::uint64_t>(recording.start_ns),
                           .realtime_ns = recording.start_ns,
                           .monotonic_ns = 0};
  recording.clock_latest = {.ticks = static_cast<std::uint64_t>(recording.end_ns),
                            .realtime_ns = recording.end_ns,
                            .monotonic_ns = recording.end_ns - recording.start_ns};
  recording.payload = *payload_;
  recording.payload_owner = payload_;
  *this = RecordingBuilder();
  return recording;
}

void RecordingBuilder::require_time_range(std::int64_t start_ns, std::int64_t end_ns) const {
  if (start_ns < -kMaxTimeNs || end_ns > kMaxTimeNs) throw std::invalid_argument("time out of range");
  if (end_ns < start_ns) throw std::invalid_argument("ends before it starts");
}

void RecordingBuilder::require_track(std::uint32_t track) const {
  if (track >= recording_.tracks.size()) throw std::invalid_argument("track does not exist");
}

void RecordingBuilder::require_event_or_none(std::int64_t event) const {
  if (event < -1 || event >= static_cast<std::int64_t>(recording_.events.size())) {
    throw std::invalid_argument("row of an event that does not exist");
  }
}

}  // namespace torchprof
