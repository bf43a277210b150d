#include "core/counter_records.h"

#include <algorithm>
#include <new>
#include <string_view>

#include "core/counter_series.h"

namespace torchprof {
namespace {

std::uint32_t intern(ActiveRecording& recording, std::string_view name, std::string_view overload) {
  const Name key{.name = name, .overload = overload};
  return recording.strings().intern(key, key.hash()).id;
}

// A counter only rises; one that seems to fall was replaced under our hands.
std::uint64_t rise(std::uint64_t from, std::uint64_t to) noexcept { return to > from ? to - from : 0; }

}  // namespace

CounterRecords::CounterRecords(ActiveRecording& recording, std::span<const std::string> names)
    : recording_(recording) {
  for (const std::string& name : names.first(std::min(names.size(), kMaxCounters))) {
    names_.push_back(
        {.counted = intern(recording, name, kCounted), .estimated = intern(recording, name, kEstimated)});
  }
}

bool CounterRecords::write(ChunkCursor& cursor, const Place& place, const CounterReading& from,
                           const CounterReading& to) noexcept {
  const std::uint64_t enabled_ns = rise(from.enabled_ns, to.enabled_ns);
  const std::uint64_t running_ns = rise(from.running_ns, to.running_ns);
  if (running_ns == 0 && enabled_ns != 0) {
    recording_.count_drops(DropReason::kNotCounted);
    return false;
  }
  std::byte* room = cursor.reserve(recording_.arena(), names_.size() * sizeof(CounterRecord));
  if (room == nullptr) {
    recording_.count_drops(cursor.failure());
    return false;
  }
  const bool is_estimate = running_ns < enabled_ns;
  const double scale = is_estimate ? static_cast<double>(enabled_ns) / static_cast<double>(running_ns) : 1.0;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    new (room + i * sizeof(CounterRecord))
        CounterRecord{.time = place.time,
                      .event = place.event,
                      .track = place.track,
                      .name = is_estimate ? names_[i].estimated : names_[i].counted,
                      .value = static_cast<double>(rise(from.values[i], to.values[i])) * scale};
    cursor.commit_record(sizeof(CounterRecord));
  }
  return true;
}

}  // namespace torchprof
