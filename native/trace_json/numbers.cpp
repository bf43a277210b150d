#include "trace_json/numbers.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <system_error>

#include "core/recording.h"

namespace torchprof {
namespace {

constexpr std::size_t kMaxIntegerDigits = 18;
// A recording holds no later time, and so nothing here overflows.
constexpr std::int64_t kMaxMicroseconds = kMaxTimeNs / 1000 - 1;
constexpr std::size_t kNsDigits = 3;

std::int64_t to_integer(std::string_view digits) noexcept {
  std::int64_t number = 0;
  for (const char digit : digits) number = number * 10 + (digit - '0');
  return number;
}

// Whether a fraction of these digits, less than one, makes the number before it the next one.
bool rounds_up(std::string_view digits, bool is_odd) noexcept {
  if (digits.empty() || digits[0] < '5') return false;
  if (digits[0] > '5' || digits.find_first_not_of('0', 1) != std::string_view::npos) return true;
  return is_odd;
}

}  // namespace

std::optional<std::int64_t> small_integer(const JsonValue& value) noexcept {
  if (value.kind != JsonKind::kInteger || !value.is_there()) return std::nullopt;
  std::string_view digits = value.text;
  const bool is_negative = digits[0] == '-';
  digits.remove_prefix(is_negative ? 1 : 0);
  if (digits.size() > kMaxIntegerDigits) return std::nullopt;
  const std::int64_t number = to_integer(digits);
  return is_negative ? -number : number;
}

std::optional<std::int64_t> microseconds(const JsonValue& value) noexcept {
  if ((value.kind != JsonKind::kInteger && value.kind != JsonKind::kReal) || !value.is_there()) {
    return std::nullopt;
  }
  std::string_view text = value.text;
  const bool is_negative = text[0] == '-';
  text.remove_prefix(is_negative ? 1 : 0);
  if (text.find_first_of("eE") != std::string_view::npos) return std::nullopt;
  const std::size_t point = text.find('.');
  const std::string_view whole = text.substr(0, point);
  if (whole.size() > kMaxIntegerDigits) return std::nullopt;
  std::string_view fraction = point == std::string_view::npos ? std::string_view() : text.substr(point + 1);
  std::int64_t ns = to_integer(whole);
  if (ns > kMaxMicroseconds) return std::nullopt;
  for (std::size_t place = 0; place < kNsDigits; ++place) {
    ns = ns * 10 + (place < fraction.size() ? fraction[place] - '0' : 0);
  }
  fraction.remove_prefix(std::min(fraction.size(), kNsDigits));
  ns += rounds_up(fraction, ns % 2 != 0) ? 1 : 0;
  return is_negative ? -ns : ns;
}

std::optional<double> real_number(const JsonValue& value) noexcept {
  if ((value.kind != JsonKind::kInteger && value.kind != JsonKind::kReal) || !value.is_there()) {
    return std::nullopt;
  }
  double number = 0;
  const char* const end = value.text.data() + value.text.size();
  const auto [parsed, error] = std::from_chars(value.text.data(), end, number);
  if (error != std::errc() || parsed != end) return std::nullopt;
  return number;
}

}  // namespace torchprof
