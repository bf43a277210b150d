#include "spans/utf8.h"

#include <cstdint>

namespace torchprof {
namespace {

constexpr bool is_continuation(std::uint8_t byte) noexcept { return (byte & 0xC0) == 0x80; }

constexpr bool is_control(std::uint8_t byte) noexcept { return byte < 0x20 || byte == 0x7F; }

}  // namespace

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
