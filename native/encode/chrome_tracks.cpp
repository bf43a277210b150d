#include "encode/chrome_tracks.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

namespace torchprof {
namespace {

// As Kineto orders processes: host processes by id, devices after them.
constexpr std::int64_t kFirstDeviceSortIndex = 0x1000000;

constexpr std::string_view kThreadField = ",\"tid\":";

std::int64_t process_of(const Track& track) {
  return track.kind == TrackKind::kStream ? track.device : track.process_id;
}

std::string fields_of(std::int64_t process_id, const std::string& thread_json) {
  return std::string("\"pid\":").append(std::to_string(process_id)).append(kThreadField).append(thread_json);
}

class FreeIds {
 public:
  explicit FreeIds(const Recording& recording) {
    for (const Track& track : recording.tracks) {
      if (track.kind == TrackKind::kThread) next_ = std::max(next_, track.thread_id);
    }
  }

  // The id in JSON: as it is while it is free, else one beyond all ids.
  std::string take(std::int64_t process_id, std::int64_t thread_id) {
    while (!taken_.emplace(process_id, thread_id).second) thread_id = after_all();
    return std::to_string(thread_id);
  }

  // "stream 7", with as many blanks as it takes.
  std::string take_lane(std::int64_t device, std::int64_t stream) {
    std::string blanks = " ";
    std::string name;
    do {
      name = "\"stream" + blanks + std::to_string(stream) + '"';
      blanks += ' ';
    } while (!taken_names_.emplace(device, name).second);
    return name;
  }

  std::string take_name(std::int64_t process_id, const std::string& name) {
    std::string candidate = quoted_json(name);
    for (int number = 2; !taken_names_.emplace(process_id, candidate).second; ++number) {
      candidate = quoted_json(name + ' ' + std::to_string(number));
    }
    return candidate;
  }

  [[nodiscard]] bool is_free(std::int64_t process_id, std::int64_t thread_id) const {
    return !taken_.contains({process_id, thread_id});
  }

 private:
  // Wraps around below the smallest id that a reader may take for something else.
  std::int64_t after_all() {
    constexpr std::int64_t kLargest = std::int64_t{1} << 53;  // what a double holds exactly
    next_ = next_ < 0 || next_ >= kLargest ? 1 : next_ + 1;
    return next_;
  }

  std::int64_t next_ = 0;
  std::set<std::pair<std::int64_t, std::int64_t>> taken_;
  std::set<std::pair<std::int64_t, std::string>> taken_names_;
};

void begin_metadata(ChromeText& text, std::string_view kind, const std::string& fields,
                    std::string_view argument) {
  text.next_event();
  text.raw("{\"ph\":\"M\",\"name\":\"");
  text.raw(kind);
  text.raw("\",");
  text.raw(fields);
  text.raw(",\"args\":{\"");
  text.raw(argument);
  text.raw("\":");
}

void write_name(ChromeText& text, std::string_view kind, const std::string& fields, std::string_view name) {
  begin_metadata(text, kind, fields, kind == "process_labels" ? "labels" : "name");
  text.string(name);
  text.raw("}}");
}

void write_sort_index(ChromeText& text, std::string_view kind, const std::string& fields,
                      std::int64_t sort_index) {
  begin_metadata(text, kind, fields, "sort_index");
  text.integer(sort_index);
  text.raw("}}");
}

}  // namespace

ChromeTracks::ChromeTracks(const Recording& recording, const ChromeLayout& layout)
    : fields_(recording.tracks.size()), recording_(recording), layout_(layout) {
  FreeIds ids(recording);
  // Threads first: it is their ids that must stay.
  for (const TrackKind kind : {TrackKind::kThread, TrackKind::kStream, TrackKind::kOther}) {
    for (std::size_t index = 0; index < recording.tracks.size(); ++index) {
      const Track& track = recording.tracks[index];
      if (track.kind != kind) continue;
      const std::int64_t process_id = process_of(track);
      std::string thread;
      if (kind == TrackKind::kOther) {
        thread = ids.take_name(process_id, track.name.empty() ? "other" : track.name);
      } else if (kind == TrackKind::kThread || ids.is_free(process_id, track.thread_id)) {
        thread = ids.take(process_id, track.thread_id);
      } else {
        thread = ids.take_lane(process_id, track.thread_id);
      }
      fields_[index].push_back(fields_of(process_id, thread));
    }
  }
  for (std::size_t index = 0; index < recording.tracks.size(); ++index) {
    const Track& track = recording.tracks[index];
    for (std::uint8_t lane = 0; lane < layout.lanes[index]; ++lane) {
      fields_[index].push_back(fields_of(track.device, ids.take_lane(track.device, track.thread_id)));
    }
  }
  const auto add_step_lane = [&](std::uint32_t track) {
    if (recording.tracks[track].kind == TrackKind::kStream || fields_[track].size() > 1) return;
    const std::int64_t process_id = process_of(recording.tracks[track]);
    fields_[track].push_back(fields_of(process_id, ids.take(process_id, recording.tracks[track].thread_id)));
  };
  for (std::size_t index = 0; index < recording.steps.size(); ++index) {
    if (layout.step_lane[index] == kBesideTrack) add_step_lane(recording.steps[index].track);
  }
  for (std::uint64_t row = 0; row < layout.lane.size(); ++row) {
    if (layout.lane[row] == kBesideTrack) add_step_lane(recording.events.track[row]);
  }
}

std::string_view ChromeTracks::thread(std::uint32_t track) const {
  const std::string_view on_track = fields_[track][kOnTrack];
  return on_track.substr(on_track.find(kThreadField) + kThreadField.size());
}

void ChromeTracks::write_metadata(ChromeText& text, const ProcessNames& process_names) const {
  std::set<std::pair<std::int64_t, bool>> processes;
  for (const Track& track : recording_.tracks) {
    processes.emplace(process_of(track), track.kind == TrackKind::kStream);
  }
  for (const auto& [process_id, is_device] : processes) {
    const std::string fields = fields_of(process_id, "0");
    const auto name = process_names.find(process_id);
    if (name != process_names.end()) write_name(text, "process_name", fields, name->second);
    write_name(text, "process_labels", fields, is_device ? "GPU " + std::to_string(process_id) : "CPU");
    write_sort_index(text, "process_sort_index", fields,
                     is_device ? kFirstDeviceSortIndex + process_id : process_id);
  }
  for (std::size_t index = 0; index < fields_.size(); ++index) {
    const Track& track = recording_.tracks[index];
    const std::string name = track.name.empty() && track.kind == TrackKind::kStream
                                 ? "stream " + std::to_string(track.thread_id)
                                 : track.name;
    for (std::size_t lane = 0; lane < fields_[index].size(); ++lane) {
      const std::string& fields = fields_[index][lane];
      const bool has_steps = lane != kOnTrack && track.kind != TrackKind::kStream;
      const std::string lane_name = has_steps ? name + (name.empty() ? "steps" : " steps") : name;
      if (!lane_name.empty()) write_name(text, "thread_name", fields, lane_name);
      write_sort_index(text, "thread_sort_index", fields, static_cast<std::int64_t>(index));
    }
  }
}

}  // namespace torchprof
