// Writes protobuf wire format front to back into one growing buffer. A message's length is patched in when
// the message ends; room for it is kept beforehand, and only a message of unexpected size is moved.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

namespace torchprof {

// The place where the next byte goes. Whoever has one has made sure that there is room. Kept in a local
// variable it stays in a register, which a member could not: bytes may be written to anything.
class ProtobufCursor {
 public:
  static constexpr std::size_t kMaxVarintBytes = 10;
  static constexpr std::size_t kMaxTagBytes = 5;

  explicit ProtobufCursor(std::uint8_t* at) noexcept : at_(at) {}
  [[nodiscard]] std::uint8_t* at() const noexcept { return at_; }

  void varint_field(std::uint32_t field, std::uint64_t value) noexcept {
    tag(field, kVarint);
    varint(value);
  }

  void fixed64_field(std::uint32_t field, std::uint64_t value) noexcept {
    tag(field, kFixed64);
    little_endian(value);
  }

  void fixed32_field(std::uint32_t field, std::uint32_t value) noexcept {
    tag(field, kFixed32);
    little_endian(value);
  }

  // Strings and bytes.
  void bytes_field(std::uint32_t field, std::string_view value) noexcept {
    header(field, value.size());
    bytes(value);
  }

  // A length-delimited field's tag and length: for content that follows from elsewhere.
  void header(std::uint32_t field, std::size_t content_bytes) noexcept {
    tag(field, kLengthDelimited);
    varint(content_bytes);
  }

  // The same with the length left out, in as many bytes as it will most likely take.
  void header_to_patch(std::uint32_t field, std::size_t length_bytes) noexcept {
    tag(field, kLengthDelimited);
    at_ += length_bytes;
  }

  void varint(std::uint64_t value) noexcept {
    while (value >= 0x80) {
      *at_++ = static_cast<std::uint8_t>(value | 0x80);
      value >>= 7;
    }
    *at_++ = static_cast<std::uint8_t>(value);
  }

  void bytes(std::string_view value) noexcept {
    if (!value.empty()) std::memcpy(at_, value.data(), value.size());
    at_ += value.size();
  }

 private:
  enum WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

  void tag(std::uint32_t field, WireType type) noexcept { varint((field << 3) | type); }

  template <class Integer>
  void little_endian(Integer value) noexcept {
    static_assert(std::endian::native == std::endian::little);
    std::memcpy(at_, &value, sizeof(value));
    at_ += sizeof(value);
  }

  std::uint8_t* at_;
};

class ProtobufWriter {
 public:
  // Where a message's content begins.
  struct Message {
    std::size_t content;
    std::size_t length_bytes;  // kept for its length
  };

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::string_view view() const noexcept {
    return {reinterpret_cast<const char*>(data_.get()), size_};
  }
  void truncate(std::size_t size) noexcept { size_ = size; }
  void remove_front(std::size_t bytes) noexcept {
    size_ -= bytes;
    if (size_ != 0) std::memmove(data_.get(), data_.get() + bytes, size_);
  }

  // Calls `write(cursor)`, which writes at most `max_bytes`.
  template <class Write>
  void write(std::size_t max_bytes, Write&& write) {
    reserve(max_bytes);
    ProtobufCursor cursor(data_.get() + size_);
    write(cursor);
    size_ = static_cast<std::size_t>(cursor.at() - data_.get());
  }

  void varint_field(std::uint32_t field, std::uint64_t value) {
    write(kMaxHeaderBytes, [&](ProtobufCursor& cursor) { cursor.varint_field(field, value); });
  }

  void fixed64_field(std::uint32_t field, std::uint64_t value) {
    write(kMaxHeaderBytes, [&](ProtobufCursor& cursor) { cursor.fixed64_field(field, value); });
  }

  void fixed32_field(std::uint32_t field, std::uint32_t value) {
    write(kMaxHeaderBytes, [&](ProtobufCursor& cursor) { cursor.fixed32_field(field, value); });
  }

  void bytes_field(std::uint32_t field, std::string_view value) {
    write(kMaxHeaderBytes + value.size(), [&](ProtobufCursor& cursor) { cursor.bytes_field(field, value); });
  }

  // proto3 writes no empty string.
  void bytes_field_unless_empty(std::uint32_t field, std::string_view value) {
    if (!value.empty()) bytes_field(field, value);
  }

  void header(std::uint32_t field, std::size_t content_bytes) {
    write(kMaxHeaderBytes, [&](ProtobufCursor& cursor) { cursor.header(field, content_bytes); });
  }

  // `length_bytes`: how long the length will most likely be: 1 below 128 bytes, 2 below 16,384.
  [[nodiscard]] Message begin_message(std::uint32_t field, std::size_t length_bytes) {
    write(kMaxHeaderBytes, [&](ProtobufCursor& cursor) { cursor.header_to_patch(field, length_bytes); });
    return {size_, length_bytes};
  }

  void end_message(Message message) {
    const std::size_t content_bytes = size_ - message.content;
    const std::size_t length_bytes = varint_bytes(content_bytes);
    const std::size_t length_at = message.content - message.length_bytes;
    if (length_bytes != message.length_bytes) {
      reserve(kMaxHeaderBytes);
      std::memmove(data_.get() + length_at + length_bytes, data_.get() + message.content, content_bytes);
    }
    ProtobufCursor(data_.get() + length_at).varint(content_bytes);
    size_ = length_at + length_bytes + content_bytes;
  }

  [[nodiscard]] static constexpr std::size_t varint_bytes(std::uint64_t value) noexcept {
    // Seven bits a byte, rounded up: exact for all of 1 to 64 bits, without a division.
    return (static_cast<std::size_t>(std::bit_width(value | 1)) * 9 + 64) / 64;
  }
  [[nodiscard]] static constexpr std::size_t field_bytes(std::uint32_t field,
                                                         std::size_t content_bytes) noexcept {
    return varint_bytes(field << 3) + varint_bytes(content_bytes) + content_bytes;
  }

  // Of a tag and a number or a length.
  static constexpr std::size_t kMaxHeaderBytes =
      ProtobufCursor::kMaxTagBytes + ProtobufCursor::kMaxVarintBytes;

 private:
  void reserve(std::size_t more_bytes) {
    if (data_ == nullptr || size_ + more_bytes > capacity_) [[unlikely]]
      grow(size_ + more_bytes);
  }

  void grow(std::size_t at_least) {
    std::size_t capacity = capacity_ < 1024 ? 1024 : capacity_ * 2;
    if (capacity < at_least) capacity = at_least;
    auto bigger = std::make_unique_for_overwrite<std::uint8_t[]>(capacity);
    if (size_ != 0) std::memcpy(bigger.get(), data_.get(), size_);
    data_ = std::move(bigger);
    capacity_ = capacity;
  }

  std::unique_ptr<std::uint8_t[]> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace torchprof
