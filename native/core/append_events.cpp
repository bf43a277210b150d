#include "core/append_events.h"

#include <cstddef>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "core/counter_series.h"
#include "core/inputs_decoder.h"

namespace torchprof {
namespace {

constexpr std::uint64_t kNotKept = std::numeric_limits<std::uint64_t>::max();

class Appender {
 public:
  Appender(RecordingBuilder& builder, const Recording& source, std::span<const std::uint32_t> track_of)
      : builder_(builder),
        source_(source),
        track_of_(track_of),
        name_of_(source.strings.size()),
        number_of_(source.events.size(), kNotKept) {
    for (std::uint32_t id = 0; id < name_of_.size(); ++id) {
      name_of_[id] = builder.add_string(source.strings.name(id), source.strings.overload(id));
    }
  }

  void add_event(std::size_t row) {
    const EventTable& events = source_.events;
    const bool is_other_thread = (events.flags[row] & kFlagOtherThread) != 0;
    const std::uint32_t track = track_of_[events.track[row]];
    const std::uint32_t end_track = is_other_thread ? track_of_[events.end_track[row]] : track;
    if (track == kNoTrack || end_track == kNoTrack) return;
    number_of_[row] = builder_.add_event({
        .start_ns = events.start_ns[row],
        .end_ns = events.end_ns[row],
        .name = name_of_[events.name[row]],
        .track = track,
        .kind = static_cast<EventKind>(events.kind[row]),
        .scope = events.scope[row],
        .flags = events.flags[row],
        .sequence = events.sequence[row],
        .forward_thread = events.forward_thread[row],
        .end_track = end_track,
        .correlation = events.correlation.empty() ? -1 : events.correlation[row],
        .payload = payload_of(row),
        .error = events.error.empty() ? 0 : name_of_[events.error[row]],
    });
  }

  void add_tables() {
    for (DeviceRecord record : source_.devices) {
      record.event = number_of_[record.event];
      if (record.event != kNotKept) builder_.add_device(record);
    }
    for (ArgumentsRecord record : source_.arguments) {
      record.event = number_of_[record.event];
      record.text = name_of_[record.text];
      if (record.event != kNotKept) builder_.add_arguments(record);
    }
    for (CounterRecord record : source_.counters) {
      // Without its event, what was counted over it would pass for something that its thread counted.
      const bool is_of_event = record.event >= 0 && is_counted(source_.strings.overload(record.name));
      if (is_of_event && number_of_[static_cast<std::size_t>(record.event)] == kNotKept) continue;
      record.name = name_of_[record.name];
      if (move(record)) builder_.add_counter(record);
    }
    for (MemoryRecord record : source_.memory) {
      if (move(record)) builder_.add_memory(record);
    }
  }

  void add_links() {
    const LinkTable& links = source_.links;
    for (std::size_t index = 0; index < links.type.size(); ++index) {
      const std::uint64_t from = number_of_[links.from[index]];
      const std::uint64_t to = number_of_[links.to[index]];
      if (from != kNotKept && to != kNotKept) {
        builder_.add_link(from, to, static_cast<LinkType>(links.type[index]));
      }
    }
  }

 private:
  // Events with equal inputs share them, and go on doing so.
  std::uint64_t payload_of(std::size_t row) {
    const std::uint64_t payload = source_.events.payload[row];
    if (payload == 0) return 0;
    const auto [entry, inserted] = payload_of_.try_emplace(payload, 0);
    if (inserted) {
      const std::span<const std::uint8_t> inputs = encoded_inputs(source_, row);
      entry->second = inputs.empty() ? 0 : builder_.add_payload(inputs);
    }
    return entry->second;
  }

  template <typename Record>
  bool move(Record& record) const {
    record.track = track_of_[record.track];
    const std::uint64_t event = record.event < 0 ? kNotKept : number_of_[record.event];
    record.event = event == kNotKept ? -1 : static_cast<std::int64_t>(event);
    return record.track != kNoTrack;
  }

  RecordingBuilder& builder_;
  const Recording& source_;
  std::span<const std::uint32_t> track_of_;
  std::vector<std::uint32_t> name_of_;
  std::vector<std::uint64_t> number_of_;
  std::unordered_map<std::uint64_t, std::uint64_t> payload_of_;
};

}  // namespace

void append_events(RecordingBuilder& builder, const Recording& source, std::span<const std::uint8_t> keep,
                   std::span<const std::uint32_t> track_of) {
  if (keep.size() != source.events.size()) throw std::invalid_argument("not one mark an event");
  if (track_of.size() != source.tracks.size()) throw std::invalid_argument("not one entry a track");
  Appender appender(builder, source, track_of);
  for (std::size_t row = 0; row < keep.size(); ++row) {
    if (keep[row] != 0) appender.add_event(row);
  }
  appender.add_tables();
  appender.add_links();
}

}  // namespace torchprof
