// Makes a Recording from events that come in any order: what importers and tests use.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/recording.h"

namespace torchprof {

struct BuilderEvent {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint32_t name = 0;   // from add_string
  std::uint32_t track = 0;  // from add_track
  EventKind kind = EventKind::kOp;
  std::uint8_t scope = 0;
  std::uint16_t flags = 0;
  std::int64_t sequence = -1;
  std::uint32_t forward_thread = 0;
  std::uint32_t end_track = 0;
  std::int64_t correlation = -1;
  std::uint64_t payload = 0;  // from add_payload
  std::uint32_t error = 0;    // from add_string: type of the exception that ended it, 0 = none
};

// Every add_... throws std::invalid_argument for what a Recording cannot hold, and leaves the builder as
// it was.
class RecordingBuilder {
 public:
  RecordingBuilder();

  // The id of the string; equal strings share one.
  std::uint32_t add_string(std::string_view name, std::string_view overload = {});
  std::uint32_t add_track(Track track);
  // `inputs`: encoded as in inputs_encoding.h, without the length. Returns the event's number, to be used
  // with add_link.
  std::uint64_t add_event(const BuilderEvent& event, std::span<const std::uint8_t> inputs = {});
  // The same inputs for many events, encoded likewise: for BuilderEvent::payload.
  std::uint64_t add_payload(std::span<const std::uint8_t> inputs);
  // Rows of the tables beside the events; `event` is a number that add_event returned, or -1 for none where
  // that is allowed, `track` and `name` come from add_track and add_string, `time` is unix ns.
  void add_device(const DeviceRecord& record);
  void add_counter(const CounterRecord& record);
  void add_memory(const MemoryRecord& record);
  // Throws also when the text is no JSON object or too long.
  void add_arguments(const ArgumentsRecord& record);
  void add_tensor_role(const TensorRoleRecord& record);
  void add_step(Step step);
  void add_link(std::uint64_t from_event, std::uint64_t to_event, LinkType type);
  // One JSON object; later keys win over earlier ones.
  void add_metadata(std::string_view json_object);
  void add_drops(DropReason reason, std::uint64_t count);
  void set_process(std::uint64_t process_id, std::uint64_t process_instance);
  void set_stopped(bool stopped);
  // Widens the recording beyond its events and steps.
  void cover(std::int64_t start_ns, std::int64_t end_ns);

  // Sorts the rows and hands the recording over; the builder is empty afterwards.
  [[nodiscard]] Recording finish();

 private:
  void require_time_range(std::int64_t start_ns, std::int64_t end_ns) const;
  void require_track(std::uint32_t track) const;
  void require_event_or_none(std::int64_t event) const;

  Recording recording_;
  std::unordered_map<std::string, std::uint32_t> string_ids_;
  std::shared_ptr<std::vector<std::uint8_t>> payload_;
  std::vector<bool> are_arguments_;  // by string id: known to be a JSON object that is not too long
  bool covers_something_ = false;
};

}  // namespace torchprof
