// Steps through JSON text in place: nothing is copied, decoded or allocated. As strict as RFC 8259.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace torchprof {

enum class JsonKind : std::uint8_t { kNull, kFalse, kTrue, kInteger, kReal, kString, kArray, kObject };

struct JsonValue {
  std::string_view text;  // as it stands there, a string with its quotes; empty = there is none
  JsonKind kind = JsonKind::kNull;
  bool has_escapes = false;  // of a string

  [[nodiscard]] bool is_there() const noexcept { return !text.empty(); }
  // What a string without escapes says.
  [[nodiscard]] std::string_view inside() const noexcept { return text.substr(1, text.size() - 2); }
};

enum class JsonFault : std::uint8_t {
  kNone,
  kCutOff,     // sound so far, but the text ends in the middle
  kMalformed,  // no JSON, or nested deeper than kMaxJsonDepth
};

inline constexpr std::size_t kMaxJsonDepth = 960;  // Python's parsers give up at 1,000
// Python refuses to convert integers of more than 4,300 digits.
inline constexpr std::size_t kMaxJsonNumberBytes = 4000;

// A function that fails returns false and says why in `fault`; where the scanner then stands means nothing.
class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) noexcept
      : begin_(text.data()), next_(text.data()), end_(text.data() + text.size()) {}

  // The next character that is no white space, not stepped over; -1 at the end of the text.
  [[nodiscard]] int peek() noexcept;
  // Steps over this character if it is the next one.
  [[nodiscard]] bool expect(char wanted) noexcept;
  // Steps over any value.
  [[nodiscard]] bool value(JsonValue& value) noexcept;
  [[nodiscard]] bool string(JsonValue& value) noexcept;

  // Steps over an object. `on_member(key)` is called behind each colon, has to step over the value, and
  // returns false to give up.
  template <typename OnMember>
  [[nodiscard]] bool members(OnMember on_member) {
    if (!expect('{')) return false;
    if (peek() == '}') return expect('}');
    for (;;) {
      JsonValue key;
      if (peek() != '"') return fail();
      if (!string(key) || !expect(':') || !on_member(key)) return false;
      if (peek() == '}') return expect('}');
      if (!expect(',')) return false;
    }
  }

  // As `members`, for the items of an array.
  template <typename OnItem>
  [[nodiscard]] bool items(OnItem on_item) {
    if (!expect('[')) return false;
    if (peek() == ']') return expect(']');
    for (;;) {
      if (!on_item()) return false;
      if (peek() == ']') return expect(']');
      if (!expect(',')) return false;
    }
  }

  [[nodiscard]] JsonFault fault() const noexcept { return fault_; }
  // False when something so far was not UTF-8 or a number of very many digits: sound JSON otherwise, but
  // others may refuse it.
  [[nodiscard]] bool is_portable() const noexcept { return is_portable_; }
  [[nodiscard]] std::size_t offset() const noexcept { return static_cast<std::size_t>(next_ - begin_); }
  // What was stepped over since an offset.
  [[nodiscard]] std::string_view text_from(std::size_t offset) const noexcept {
    return {begin_ + offset, this->offset() - offset};
  }

 private:
  bool fail() noexcept;
  bool malformed() noexcept;
  bool number(JsonKind& kind) noexcept;
  bool digits() noexcept;
  bool literal(std::string_view word) noexcept;
  bool scalar(JsonKind& kind, bool& has_escapes) noexcept;
  bool container() noexcept;
  bool escape() noexcept;
  bool hexadecimal(std::uint32_t& unit) noexcept;

  const char* begin_;
  const char* next_;
  const char* end_;
  JsonFault fault_ = JsonFault::kNone;
  bool is_portable_ = true;
};

// Whether a text is one object that any reader takes, and nothing else.
[[nodiscard]] bool is_json_object(std::string_view text) noexcept;

}  // namespace torchprof
