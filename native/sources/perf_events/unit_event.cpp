#include "sources/perf_events/unit_event.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <stdexcept>

namespace torchprof::perf {
namespace {

constexpr unsigned kConfigBits = 64;

bool is_file_name(std::string_view name) {
  return !name.empty() && name.front() != '.' && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

// The first line of a file of sysfs; nothing when there is none.
std::optional<std::string> read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::string quoted(std::string_view text) { return std::string("\"").append(text).append("\""); }

template <typename Number>
std::optional<Number> to_number(std::string_view text) {
  constexpr int kHexadecimal = 16;
  constexpr int kDecimal = 10;
  const bool is_hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  if (is_hexadecimal) text.remove_prefix(2);
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] =
      std::from_chars(text.data(), end, number, is_hexadecimal ? kHexadecimal : kDecimal);
  return error == std::errc() && stopped == end ? std::optional(number) : std::nullopt;
}

// Takes the text up to `separator` off the front of `rest`.
std::string_view take(std::string_view& rest, char separator) {
  const std::size_t end = rest.find(separator);
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return part;
}

[[noreturn]] void refuse(const std::string& what) {
  throw std::invalid_argument(what +
                              "; `perf list` and the files below the unit's `format` show what it takes");
}

class TermReader {
 public:
  TermReader(std::string folder, Event& event) : folder_(std::move(folder)), event_(event) {}

  void add(std::string_view terms, bool names_allowed) {
    while (!terms.empty()) add_term(take(terms, ','), names_allowed);
  }

 private:
  void add_term(std::string_view term, bool names_allowed) {
    const std::string_view name = take(term, '=');
    if (!is_file_name(name)) refuse(quoted(name) + " is no term");
    if (term.empty() && names_allowed) {
      if (const auto alias = read_line(folder_ + "/events/" + std::string(name))) {
        add(*alias, false);
        return;
      }
    }
    // A term without a value is a switch.
    const auto value = term.empty() ? std::optional<std::uint64_t>(1) : to_number<std::uint64_t>(term);
    if (!value) refuse(quoted(term) + " is no value of " + std::string(name));
    if (std::uint64_t* const whole = config_named(name)) {
      *whole = *value;
      return;
    }
    const auto format = read_line(folder_ + "/format/" + std::string(name));
    if (!format) refuse("the unit has no term or event " + std::string(name));
    place(*format, *value, name);
  }

  // Spreads the bits of a value over the ranges of `config:0-7,32-35`, lowest first.
  void place(std::string_view format, std::uint64_t value, std::string_view name) {
    std::uint64_t* const config = config_named(take(format, ':'));
    if (config == nullptr) refuse("the term " + std::string(name) + " goes where we cannot put it");
    while (!format.empty()) {
      std::string_view range = take(format, ',');
      const auto first = to_number<unsigned>(take(range, '-'));
      const auto last = range.empty() ? first : to_number<unsigned>(range);
      if (!first || !last || *first > *last || *last >= kConfigBits) {
        refuse("the term " + std::string(name) + " has a format that we do not know");
      }
      const unsigned width = *last - *first + 1;
      const std::uint64_t mask = width == kConfigBits ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
      *config = (*config & ~(mask << *first)) | (value & mask) << *first;
      value = width == kConfigBits ? 0 : value >> width;
    }
    if (value != 0) refuse("the value of " + std::string(name) + " is too large");
  }

  std::uint64_t* config_named(std::string_view name) {
    if (name == "config") return &event_.config;
    if (name == "config1") return &event_.config1;
    if (name == "config2") return &event_.config2;
    return nullptr;
  }

  std::string folder_;
  Event& event_;
};

std::string folder_of(std::string_view unit, const std::string& devices) {
  return devices + "/" + std::string(unit);
}

}  // namespace

Event parse_unit_event(std::string_view unit, std::string_view terms, const std::string& devices) {
  const auto line = is_file_name(unit) ? read_line(folder_of(unit, devices) + "/type") : std::nullopt;
  const auto type = line ? to_number<std::uint32_t>(*line) : std::nullopt;
  if (!type) {
    throw std::invalid_argument("this machine has no counting unit " + quoted(unit) + "; " + devices +
                                " lists those it has");
  }
  Event event;
  event.type = *type;
  TermReader(folder_of(unit, devices), event).add(terms, true);
  return event;
}

std::optional<Event> find_unit_event(std::string_view unit, std::string_view name,
                                     const std::string& devices) {
  if (!is_file_name(name)) return std::nullopt;
  if (!read_line(folder_of(unit, devices) + "/events/" + std::string(name))) return std::nullopt;
  return parse_unit_event(unit, name, devices);
}

}  // namespace torchprof::perf
