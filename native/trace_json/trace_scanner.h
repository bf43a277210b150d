// Reads the text of a trace piece by piece, strictly: an array of events, or an object with `traceEvents`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "core/json_scanner.h"
#include "trace_json/event_collector.h"

namespace torchprof {

enum class TraceState : std::uint8_t {
  kReading,   // sound so far
  kWhole,     // the document has ended
  kMalformed  // it is no JSON, or `traceEvents` is no array
};

class TraceScanner {
 public:
  // `header_keys`: the members beside `traceEvents` to be kept.
  TraceScanner(CategoryClasses classes, std::unordered_set<std::string> header_keys)
      : collector_(std::move(classes)), header_keys_(std::move(header_keys)) {}

  // Takes the next piece; after something malformed it does nothing.
  void feed(std::string_view piece);
  // Says that no more pieces come, so that what waits for more is looked at once more.
  void finish();
  // Takes the text of one event that was found in some other way.
  void add_event(std::string_view text);

  [[nodiscard]] TraceState state() const noexcept;
  [[nodiscard]] bool has_events() const noexcept { return has_events_; }
  // While reading: whether the next thing to read is an event or what follows one, and whether everything so
  // far was common enough that searching for whole events would find the same.
  [[nodiscard]] bool is_among_events() const noexcept;
  // While reading: whether a part of an event is there.
  [[nodiscard]] bool is_in_event() const noexcept;
  // Counts the arrays of events that were begun: with the second one those of the first do not count.
  [[nodiscard]] std::uint64_t arrays_begun() const noexcept { return arrays_begun_; }
  [[nodiscard]] const std::unordered_map<std::string, std::string>& header() const noexcept {
    return header_;
  }
  [[nodiscard]] EventCollector& collector() noexcept { return collector_; }

 private:
  enum class Place : std::uint8_t {
    kBegin,
    kFirstMember,
    kMember,
    kBehindMember,
    kFirstEvent,
    kEvent,
    kBehindEvent,
    kEnd
  };

  void read();
  // Reads one thing; false where the text is cut off or malformed.
  [[nodiscard]] bool step(JsonScanner& scanner);
  [[nodiscard]] bool begin(JsonScanner& scanner);
  [[nodiscard]] bool member(JsonScanner& scanner);
  [[nodiscard]] bool event(JsonScanner& scanner);
  [[nodiscard]] bool behind(JsonScanner& scanner, char closing, Place next, Place closed);

  EventCollector collector_;
  std::unordered_set<std::string> header_keys_;
  std::unordered_map<std::string, std::string> header_;
  std::string pending_;          // what was not read yet
  std::size_t retry_bytes_ = 0;  // so many must be pending before it is worth while to read again
  EventText event_;
  Place place_ = Place::kBegin;
  bool is_at_start_ = true;
  bool is_list_ = false;
  bool has_events_ = false;
  bool is_common_ = true;
  bool is_malformed_ = false;
  std::uint64_t arrays_begun_ = 0;
};

}  // namespace torchprof
