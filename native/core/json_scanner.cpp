#include "core/json_scanner.h"

#include <bit>
#include <bitset>
#include <cstring>

#include "core/utf8.h"

namespace torchprof {
namespace {

constexpr std::uint64_t kOnes = 0x0101010101010101;
constexpr std::uint64_t kHighBits = 0x8080808080808080;

// The high bit of each byte that a string cannot simply step over: quotes, backslashes, control characters
// and whatever is not ASCII. Bytes above the lowest that is marked may be marked wrongly.
constexpr std::uint64_t special_bytes(std::uint64_t word) noexcept {
  const std::uint64_t quote = word ^ (kOnes * '"');
  const std::uint64_t backslash = word ^ (kOnes * '\\');
  return ((quote - kOnes) | (backslash - kOnes) | (word - kOnes * 0x20) | word) & kHighBits;
}

constexpr bool is_digit(char character) noexcept { return character >= '0' && character <= '9'; }

constexpr bool is_space(char character) noexcept {
  return character == ' ' || character == '\n' || character == '\r' || character == '\t';
}

}  // namespace

bool JsonScanner::fail() noexcept {
  fault_ = next_ == end_ ? JsonFault::kCutOff : JsonFault::kMalformed;
  return false;
}

bool JsonScanner::malformed() noexcept {
  fault_ = JsonFault::kMalformed;
  return false;
}

int JsonScanner::peek() noexcept {
  while (next_ != end_ && is_space(*next_)) ++next_;
  return next_ == end_ ? -1 : static_cast<unsigned char>(*next_);
}

bool JsonScanner::expect(char wanted) noexcept {
  if (peek() != static_cast<unsigned char>(wanted)) return fail();
  ++next_;
  return true;
}

bool JsonScanner::value(JsonValue& value) noexcept {
  const int first = peek();
  if (first < 0) return fail();
  const char* const begin = next_;
  value.has_escapes = false;
  if (first == '{' || first == '[') {
    value.kind = first == '{' ? JsonKind::kObject : JsonKind::kArray;
    if (!container()) return false;
  } else if (!scalar(value.kind, value.has_escapes)) {
    return false;
  }
  value.text = {begin, static_cast<std::size_t>(next_ - begin)};
  return true;
}

bool JsonScanner::string(JsonValue& value) noexcept {
  const char* const begin = next_;
  value.kind = JsonKind::kString;
  value.has_escapes = false;
  for (++next_;;) {
    while (end_ - next_ >= 8) {
      std::uint64_t word;
      std::memcpy(&word, next_, sizeof(word));
      const std::uint64_t special = special_bytes(word);
      if (special == 0) {
        next_ += 8;
        continue;
      }
      next_ += std::countr_zero(special) / 8;
      break;
    }
    if (next_ == end_) return fail();
    const auto byte = static_cast<unsigned char>(*next_);
    if (byte == '"') {
      ++next_;
      value.text = {begin, static_cast<std::size_t>(next_ - begin)};
      return true;
    }
    if (byte == '\\') {
      value.has_escapes = true;
      if (!escape()) return false;
    } else if (byte < 0x20) {
      return malformed();
    } else if (byte < 0x80) {
      ++next_;
    } else {
      const std::size_t bytes = character_bytes({next_, static_cast<std::size_t>(end_ - next_)});
      is_portable_ = is_portable_ && bytes != 0;
      next_ += bytes != 0 ? bytes : 1;
    }
  }
}

bool JsonScanner::escape() noexcept {
  if (++next_ == end_) return fail();
  const char kind = *next_++;
  if (kind != 'u') return std::strchr("\"\\/bfnrt", kind) != nullptr && kind != '\0' ? true : malformed();
  std::uint32_t unit = 0;
  if (!hexadecimal(unit)) return false;
  if (unit < 0xD800 || unit > 0xDFFF) return true;
  // A surrogate stands for nothing by itself.
  if (unit > 0xDBFF) return malformed();
  for (const char wanted : {'\\', 'u'}) {
    if (next_ == end_ || *next_ != wanted) return fail();
    ++next_;
  }
  if (!hexadecimal(unit)) return false;
  return unit >= 0xDC00 && unit <= 0xDFFF ? true : malformed();
}

bool JsonScanner::hexadecimal(std::uint32_t& unit) noexcept {
  unit = 0;
  for (int place = 0; place < 4; ++place) {
    if (next_ == end_) return fail();
    const char digit = *next_++;
    const char lower = static_cast<char>(digit | 0x20);
    if (is_digit(digit)) {
      unit = unit * 16 + static_cast<std::uint32_t>(digit - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      unit = unit * 16 + static_cast<std::uint32_t>(lower - 'a' + 10);
    } else {
      return malformed();
    }
  }
  return true;
}

bool JsonScanner::scalar(JsonKind& kind, bool& has_escapes) noexcept {
  switch (*next_) {
    case '"': {
      JsonValue text;
      if (!string(text)) return false;
      kind = text.kind;
      has_escapes = text.has_escapes;
      return true;
    }
    case 't':
      kind = JsonKind::kTrue;
      return literal("true");
    case 'f':
      kind = JsonKind::kFalse;
      return literal("false");
    case 'n':
      kind = JsonKind::kNull;
      return literal("null");
    default:
      return number(kind);
  }
}

bool JsonScanner::literal(std::string_view word) noexcept {
  for (const char wanted : word) {
    if (next_ == end_ || *next_ != wanted) return fail();
    ++next_;
  }
  return true;
}

bool JsonScanner::digits() noexcept {
  if (next_ == end_ || !is_digit(*next_)) return fail();
  while (next_ != end_ && is_digit(*next_)) ++next_;
  return true;
}

bool JsonScanner::number(JsonKind& kind) noexcept {
  const char* const begin = next_;
  kind = JsonKind::kInteger;
  if (*next_ == '-') ++next_;
  if (next_ != end_ && *next_ == '0') {
    ++next_;
    if (next_ != end_ && is_digit(*next_)) return malformed();
  } else if (!digits()) {
    return false;
  }
  if (next_ != end_ && *next_ == '.') {
    kind = JsonKind::kReal;
    ++next_;
    if (!digits()) return false;
  }
  if (next_ != end_ && (*next_ == 'e' || *next_ == 'E')) {
    kind = JsonKind::kReal;
    ++next_;
    if (next_ != end_ && (*next_ == '+' || *next_ == '-')) ++next_;
    if (!digits()) return false;
  }
  if (next_ == end_) return fail();  // there may be more of it
  is_portable_ = is_portable_ && static_cast<std::size_t>(next_ - begin) <= kMaxJsonNumberBytes;
  return true;
}

bool JsonScanner::container() noexcept {
  std::bitset<kMaxJsonDepth> is_object;  // by depth
  std::size_t depth = 0;
  bool wants_member = false;  // the next thing is a key or a value, not a closing bracket
  for (;;) {
    const int first = peek();
    if (first < 0) return fail();
    const bool is_closing = first == '}' || first == ']';
    if (is_closing && !wants_member && depth > 0) {
      if (is_object[depth - 1] != (first == '}')) return malformed();
      ++next_;
      --depth;
    } else {
      if (depth > 0 && is_object[depth - 1]) {
        JsonValue key;
        if (first != '"') return fail();
        if (!string(key) || !expect(':') || peek() < 0) return fault_ == JsonFault::kNone ? fail() : false;
      }
      if (*next_ == '{' || *next_ == '[') {
        if (depth == kMaxJsonDepth) return malformed();
        is_object[depth++] = *next_++ == '{';
        wants_member = false;
        continue;
      }
      JsonKind kind{};
      bool has_escapes = false;
      if (!scalar(kind, has_escapes)) return false;
    }
    // Behind a value: what follows closes containers or begins a member.
    for (;;) {
      if (depth == 0) return true;
      const int next = peek();
      if (next == ',') {
        ++next_;
        wants_member = true;
        break;
      }
      if (next != (is_object[depth - 1] ? '}' : ']')) return fail();
      ++next_;
      --depth;
    }
  }
}

bool is_json_object(std::string_view text) noexcept {
  JsonScanner scanner(text);
  JsonValue value;
  return scanner.peek() == '{' && scanner.value(value) && scanner.peek() < 0 && scanner.is_portable();
}

}  // namespace torchprof
