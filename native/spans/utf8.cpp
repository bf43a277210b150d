#include "spans/utf8.h"

#include <cstdint>

namespace torchprof {
namespace {

constexpr bool is_continuation(std::uint8_t byte) noexcept { return (byte & 0xC0) == 0x80; }

constexpr bool is_control(std::uint8_t byte) noexcept { return byte < 0x20 || byte == 0x7F; }

}  // namespace

std::size_t character_bytes(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  std::size_t size = 0;
  std::uint8_t second_min = 0x80;
  std::uint8_t second_max = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    size = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    size = 3;
    if (lead == 0xE0) second_min = 0xA0;
    if (lead == 0xED) second_max = 0x9F;  // above: surrogates
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    size = 4;
    if (lead == 0xF0) second_min = 0x90;
    if (lead == 0xF4) second_max = 0x8F;
  } else {
    return 0;
  }
  if (text.size() < size || byte(1) < second_min || byte(1) > second_max) return 0;
  for (std::size_t i = 2; i < size; ++i) {
    if (!is_continuation(byte(i))) return 0;
  }
  return size;
}

bool is_clean_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    if (bytes == 0 || (bytes == 1 && is_control(static_cast<std::uint8_t>(text[0])))) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string clean_utf8(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const auto first = static_cast<std::uint8_t>(text[0]);
    std::size_t bytes = character_bytes(text);
    if (bytes == 0 || (bytes == 1 && is_control(first))) {
      clean += "\\x";
      clean += kHex[first >> 4];
      clean += kHex[first & 15];
      bytes = 1;
    } else {
      clean += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return clean;
}

std::string_view cut_to_bytes(std::string_view text, std::size_t max_bytes) noexcept {
  if (text.size() <= max_bytes) return text;
  std::size_t end = max_bytes;
  while (end > 0 && is_continuation(static_cast<std::uint8_t>(text[end]))) --end;
  return text.substr(0, end);
}

std::string_view cut_to_characters(std::string_view text, std::size_t max_characters) noexcept {
  std::size_t characters = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_continuation(static_cast<std::uint8_t>(text[i]))) continue;
    if (characters++ == max_characters) return text.substr(0, i);
  }
  return text;
}

}  // namespace torchprof
