#include "spans/span_name.h"

#include <algorithm>
#include <charconv>

#include "spans/event_kinds.h"
#include "spans/kernel_name.h"
#include "spans/utf8.h"

namespace torchprof {
namespace {

constexpr std::string_view kProfilerStep = "ProfilerStep#";
constexpr std::string_view kUnnamed = "unnamed";
constexpr std::string_view kCompiledRegion = "Torch-Compiled Region";

constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
constexpr bool is_lower(char c) noexcept { return c >= 'a' && c <= 'z'; }

std::optional<std::int64_t> parse_whole_number(std::string_view text) noexcept {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// Inductor's cache keys are `f` and 51 characters of base 32; others are 16 and more hexadecimal digits.
bool is_hash(std::string_view word) noexcept {
  if (!std::any_of(word.begin(), word.end(), is_digit)) return false;
  if (word.size() >= 40) {
    return std::all_of(word.begin(), word.end(), [](char c) { return is_digit(c) || is_lower(c); });
  }
  return word.size() >= 16 &&
         std::all_of(word.begin(), word.end(), [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); });
}

std::string strip_hashes(std::string_view name) {
  std::string kept;
  kept.reserve(name.size());
  bool first = true;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find(' ', begin), name.size());
    const std::string_view word = name.substr(begin, end - begin);
    if (!is_hash(word)) {
      if (!first) kept += ' ';
      kept += word;
      first = false;
    }
    begin = end + 1;
  }
  return kept;
}

SpanName finish(std::string_view recorded, const std::string& text) {
  SpanName name;
  name.text = text.empty() ? kUnnamed : cut_to_characters(text, kMaxSpanNameCharacters);
  const std::string clean = clean_utf8(recorded);
  if (name.text != clean) name.original = cut_to_bytes(clean, kMaxValueBytes);
  return name;
}

}  // namespace

SpanName host_span_name(std::string_view recorded) {
  if (recorded.starts_with(kProfilerStep)) {
    if (const auto number = parse_whole_number(recorded.substr(kProfilerStep.size()))) {
      SpanName name = finish(recorded, std::string(kStepSpanName));
      name.step_number = number;
      return name;
    }
  }
  if (recorded.starts_with(kCompiledRegion)) return finish(recorded, std::string(kCompiledRegion));
  const std::string clean = clean_utf8(recorded);
  const std::string stripped = strip_hashes(clean);
  return finish(recorded, stripped.empty() ? clean : stripped);
}

SpanName device_span_name(std::string_view recorded, EventKind kind) {
  const std::string clean = clean_utf8(recorded);
  if (kind == EventKind::kKernel) return finish(recorded, kernel_name(clean));
  if (is_device_work(kind)) return finish(recorded, clean.substr(0, clean.find(" (")));
  return host_span_name(recorded);
}

std::uint32_t SpanNames::index_of(std::uint32_t string, EventKind kind) {
  const std::uint64_t naming = is_device_work(kind) ? static_cast<std::uint64_t>(kind) : 0;
  const std::uint64_t key = (naming << 32) | string;
  if (const auto found = by_string_.find(key); found != by_string_.end()) return found->second;
  const std::string_view recorded = strings_.name(string);
  const std::uint32_t index = add(naming != 0 ? device_span_name(recorded, kind) : host_span_name(recorded));
  by_string_.emplace(key, index);
  return index;
}

std::uint32_t SpanNames::add(SpanName name) {
  const auto index = static_cast<std::uint32_t>(names_.size());
  text_ids_.push_back(by_text_.try_emplace(name.text, index).first->second);
  names_.push_back(std::move(name));
  return index;
}

}  // namespace torchprof
