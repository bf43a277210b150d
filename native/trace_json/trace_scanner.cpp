#include "trace_json/trace_scanner.h"

#include <algorithm>

namespace torchprof {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::size_t kMaxHeaderBytes = std::size_t{8} << 20;

}  // namespace

void TraceScanner::feed(std::string_view piece) {
  if (is_malformed_) return;
  pending_.append(piece);
  if (is_at_start_) {
    if (pending_.size() < kByteOrderMark.size()) return;
    is_at_start_ = false;
    if (pending_.starts_with(kByteOrderMark)) pending_.erase(0, kByteOrderMark.size());
  }
  if (pending_.size() >= retry_bytes_) read();
}

void TraceScanner::finish() {
  is_at_start_ = false;
  if (!is_malformed_) read();
}

void TraceScanner::add_event(std::string_view text) {
  JsonScanner scanner(text);
  if (scanner.peek() == '{' && event_.read(scanner) && scanner.peek() < 0) {
    event_.text = text;
    collector_.add(event_, scanner.is_portable());
  } else {
    collector_.add_other(text);
  }
}

TraceState TraceScanner::state() const noexcept {
  if (is_malformed_) return TraceState::kMalformed;
  return place_ == Place::kEnd ? TraceState::kWhole : TraceState::kReading;
}

bool TraceScanner::is_among_events() const noexcept {
  const bool is_there =
      place_ == Place::kFirstEvent || place_ == Place::kEvent || place_ == Place::kBehindEvent;
  return is_there && is_common_ && arrays_begun_ == 1 && (!is_in_event() || pending_[0] == '{');
}

bool TraceScanner::is_in_event() const noexcept { return !pending_.empty(); }

void TraceScanner::read() {
  std::size_t read_bytes = 0;
  for (;;) {
    // A scanner of its own for each thing, so that what was wrong with one is not said of the next.
    const std::string_view rest = std::string_view(pending_).substr(read_bytes);
    JsonScanner scanner(rest);
    const bool is_at_end = scanner.peek() < 0;
    read_bytes += scanner.offset();
    if (is_at_end) break;
    scanner = JsonScanner(std::string_view(pending_).substr(read_bytes));
    if (!step(scanner)) {
      is_malformed_ = scanner.fault() != JsonFault::kCutOff;
      break;
    }
    read_bytes += scanner.offset();
  }
  pending_.erase(0, read_bytes);
  // An event longer than the pieces would be read again from its begin with each of them.
  retry_bytes_ = pending_.size() * 2;
}

bool TraceScanner::step(JsonScanner& scanner) {
  switch (place_) {
    case Place::kBegin:
      return begin(scanner);
    case Place::kFirstMember:
      if (scanner.peek() == '}') return behind(scanner, '}', Place::kMember, Place::kEnd);
      return member(scanner);
    case Place::kMember:
      return member(scanner);
    case Place::kBehindMember:
      return behind(scanner, '}', Place::kMember, Place::kEnd);
    case Place::kFirstEvent:
      if (scanner.peek() == ']') {
        return behind(scanner, ']', Place::kEvent, is_list_ ? Place::kEnd : Place::kBehindMember);
      }
      return event(scanner);
    case Place::kEvent:
      return event(scanner);
    case Place::kBehindEvent:
      return behind(scanner, ']', Place::kEvent, is_list_ ? Place::kEnd : Place::kBehindMember);
    case Place::kEnd:
      break;
  }
  return false;
}

bool TraceScanner::begin(JsonScanner& scanner) {
  is_list_ = scanner.peek() == '[';
  if (!scanner.expect(is_list_ ? '[' : '{')) return false;
  place_ = is_list_ ? Place::kFirstEvent : Place::kFirstMember;
  arrays_begun_ += is_list_ ? 1 : 0;
  return true;
}

bool TraceScanner::member(JsonScanner& scanner) {
  JsonValue key;
  if (scanner.peek() != '"') return scanner.expect('"');
  if (!scanner.string(key) || !scanner.expect(':')) return false;
  if (key.inside() == "traceEvents") {
    if (!scanner.expect('[')) return false;
    if (arrays_begun_++ > 0) {
      (void)collector_.take();
      has_events_ = false;
    }
    place_ = Place::kFirstEvent;
    return true;
  }
  JsonValue value;
  if (!scanner.value(value)) return false;
  std::string name(key.inside());
  if (value.text.size() <= kMaxHeaderBytes && header_keys_.contains(name)) {
    header_.insert_or_assign(std::move(name), std::string(value.text));
  }
  place_ = Place::kBehindMember;
  return true;
}

bool TraceScanner::event(JsonScanner& scanner) {
  const std::size_t begin = scanner.offset();
  if (scanner.peek() == '{') {
    if (!event_.read(scanner)) return false;
    event_.text = scanner.text_from(begin);
    collector_.add(event_, scanner.is_portable());
    is_common_ = is_common_ && scanner.is_portable();
  } else {
    JsonValue value;
    if (!scanner.value(value)) return false;
    collector_.add_other(value.text);
    is_common_ = false;
  }
  has_events_ = true;
  place_ = Place::kBehindEvent;
  return true;
}

bool TraceScanner::behind(JsonScanner& scanner, char closing, Place next, Place closed) {
  const bool is_closed = scanner.peek() == closing;
  if (!scanner.expect(is_closed ? closing : ',')) return false;
  place_ = is_closed ? closed : next;
  return true;
}

}  // namespace torchprof
