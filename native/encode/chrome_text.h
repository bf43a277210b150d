// JSON text in pieces of about a megabyte, handed to a sink as they fill.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace torchprof {

inline constexpr std::size_t kChromeBufferBytes = std::size_t{1} << 20;

class ChromeText {
 public:
  using Sink = std::function<void(std::string_view)>;

  explicit ChromeText(Sink sink);

  // Text that is JSON already.
  void raw(std::string_view json) { buffer_.append(json); }
  // A quoted string of valid UTF-8: what is not becomes U+FFFD, one a byte. Returns whether nothing had to.
  bool string(std::string_view bytes);
  void integer(std::int64_t value);
  // The shortest number that reads back as the same; null where JSON has none.
  void number(double value);
  void number(float value);
  // Microseconds with three decimals.
  void microseconds(std::int64_t ns);
  // Two hexadecimal digits a byte, quoted.
  void hexadecimal(std::string_view bytes);

  // To be called before each event of the array: puts them on lines of their own, and hands over what has
  // gathered when it is enough.
  void next_event();
  void flush();
  [[nodiscard]] std::uint64_t size_bytes() const noexcept { return flushed_bytes_ + buffer_.size(); }

 private:
  void escape(unsigned char byte);

  Sink sink_;
  std::string buffer_;
  std::uint64_t flushed_bytes_ = 0;
  bool is_first_event_ = true;
};

// What `ChromeText::string` writes.
[[nodiscard]] std::string quoted_json(std::string_view bytes);

}  // namespace torchprof
