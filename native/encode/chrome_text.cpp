#include "encode/chrome_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "spans/utf8.h"

namespace torchprof {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// What a JSON string cannot hold as it is, and what has to be looked at more closely.
constexpr std::array<bool, 256> special_bytes() {
  std::array<bool, 256> special{};
  for (std::size_t byte = 0; byte < special.size(); ++byte) special[byte] = byte < 0x20 || byte >= 0x7F;
  special['"'] = special['\\'] = true;
  return special;
}

constexpr std::array<bool, 256> kSpecial = special_bytes();

template <typename Number>
void append_number(std::string& out, Number value) {
  std::array<char, 32> digits;
  out.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
}

}  // namespace

ChromeText::ChromeText(Sink sink) : sink_(std::move(sink)) { buffer_.reserve(2 * kChromeBufferBytes); }

bool ChromeText::string(std::string_view bytes) {
  bool intact = true;
  buffer_ += '"';
  std::size_t begin = 0;
  std::size_t i = 0;
  while (i < bytes.size()) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    if (!kSpecial[byte]) {
      ++i;
      continue;
    }
    if (byte >= 0x7F) {
      const std::size_t size = character_bytes(bytes.substr(i));
      if (size != 0) {
        i += size;
        continue;
      }
    }
    buffer_.append(bytes.substr(begin, i - begin));
    if (byte >= 0x7F) {
      buffer_.append(kReplacement);
      intact = false;
    } else {
      escape(byte);
    }
    begin = ++i;
  }
  buffer_.append(bytes.substr(begin));
  buffer_ += '"';
  return intact;
}

void ChromeText::escape(unsigned char byte) {
  buffer_ += '\\';
  switch (byte) {
    case '"':
    case '\\':
      buffer_ += static_cast<char>(byte);
      return;
    case '\n':
      buffer_ += 'n';
      return;
    case '\t':
      buffer_ += 't';
      return;
    case '\r':
      buffer_ += 'r';
      return;
    default:
      buffer_ += "u00";
      buffer_ += kHexDigits[byte >> 4];
      buffer_ += kHexDigits[byte & 15];
  }
}

void ChromeText::integer(std::int64_t value) { append_number(buffer_, value); }

void ChromeText::number(double value) { std::isfinite(value) ? append_number(buffer_, value) : raw("null"); }

void ChromeText::number(float value) { std::isfinite(value) ? append_number(buffer_, value) : raw("null"); }

void ChromeText::microseconds(std::int64_t ns) {
  auto magnitude = static_cast<std::uint64_t>(ns);
  if (ns < 0) {
    buffer_ += '-';
    magnitude = ~magnitude + 1;
  }
  append_number(buffer_, magnitude / 1000);
  const auto rest = static_cast<unsigned>(magnitude % 1000);
  const char decimals[] = {'.', static_cast<char>('0' + rest / 100), static_cast<char>('0' + rest / 10 % 10),
                           static_cast<char>('0' + rest % 10)};
  buffer_.append(decimals, sizeof(decimals));
}

void ChromeText::hexadecimal(std::string_view bytes) {
  buffer_ += '"';
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    buffer_ += kHexDigits[byte >> 4];
    buffer_ += kHexDigits[byte & 15];
  }
  buffer_ += '"';
}

void ChromeText::next_event() {
  if (buffer_.size() >= kChromeBufferBytes) flush();
  raw(is_first_event_ ? "\n" : ",\n");
  is_first_event_ = false;
}

void ChromeText::flush() {
  if (buffer_.empty()) return;
  sink_(buffer_);
  flushed_bytes_ += buffer_.size();
  buffer_.clear();
}

std::string quoted_json(std::string_view bytes) {
  std::string json;
  ChromeText text([&](std::string_view piece) { json += piece; });
  text.string(bytes);
  text.flush();
  return json;
}

}  // namespace torchprof
