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

  void varint_field(std::uint32_t field, std::uint64_t value) {
    reserve(kMaxTagBytes + kMaxVarintBytes);
    tag(field, kVarint);
    varint(value);
  }

  void fixed64_field(std::uint32_t field, std::uint64_t value) {
    reserve(kMaxTagBytes + sizeof(value));
    tag(field, kFixed64);
    little_endian(value);
  }

  void fixed32_field(std::uint32_t field, std::uint32_t value) {
    reserve(kMaxTagBytes + sizeof(value));
    tag(field, kFixed32);
    little_endian(value);
  }

  // Strings and bytes.
  void bytes_field(std::uint32_t field, std::string_view value) {
    reserve(kMaxTagBytes + kMaxVarintBytes + value.size());
    tag(field, kLengthDelimited);
    varint(value.size());
    append(value);
  }

  // proto3 writes no empty string.
  void bytes_field_unless_empty(std::uint32_t field, std::string_view value) {
    if (!value.empty()) bytes_field(field, value);
  }

  // `length_bytes`: how long the length will most likely be: 1 below 128 bytes, 2 below 16,384.
  [[nodiscard]] Message begin_message(std::uint32_t field, std::size_t length_bytes) {
    reserve(kMaxTagBytes + length_bytes);
    tag(field, kLengthDelimited);
    size_ += length_bytes;
    return {size_, length_bytes};
  }

  void end_message(Message message) {
    const std::size_t content_bytes = size_ - message.content;
    const std::size_t needed = varint_bytes(content_bytes);
    const std::size_t length_at = message.content - message.length_bytes;
    if (needed != message.length_bytes) {
      reserve(kMaxVarintBytes);
      std::memmove(data_.get() + length_at + needed, data_.get() + message.content, content_bytes);
    }
    size_ = length_at;
    varint(content_bytes);
    size_ += content_bytes;
  }

  void append(std::string_view bytes) {
    reserve(bytes.size());
    if (!bytes.empty()) std::memcpy(data_.get() + size_, bytes.data(), bytes.size());
    size_ += bytes.size();
  }

  // A length-delimited field's tag and length: for content that follows from elsewhere.
  void header(std::uint32_t field, std::size_t content_bytes) {
    reserve(kMaxTagBytes + kMaxVarintBytes);
    tag(field, kLengthDelimited);
    varint(content_bytes);
  }

  [[nodiscard]] static std::size_t varint_bytes(std::uint64_t value) noexcept {
    return (static_cast<std::size_t>(std::bit_width(value | 1)) + 6) / 7;
  }
  [[nodiscard]] static std::size_t field_bytes(std::uint32_t field, std::size_t content_bytes) noexcept {
    return varint_bytes(field << 3) + varint_bytes(content_bytes) + content_bytes;
  }

 private:
  enum WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };
  static constexpr std::size_t kMaxVarintBytes = 10;
  static constexpr std::size_t kMaxTagBytes = 5;

  void reserve(std::size_t more_bytes) {
    if (size_ + more_bytes > capacity_) grow(size_ + more_bytes);
  }

  void grow(std::size_t at_least) {
    std::size_t capacity = capacity_ < 1024 ? 1024 : capacity_ * 2;
    if (capacity < at_least) capacity = at_least;
    auto bigger = std::make_unique_for_overwrite<std::uint8_t[]>(capacity);
    if (size_ != 0) std::memcpy(bigger.get(), data_.get(), size_);
    data_ = std::move(bigger);
    capacity_ = capacity;
  }

  // The rest assumes room.
  void tag(std::uint32_t field, WireType type) noexcept { varint((field << 3) | type); }

  void varint(std::uint64_t value) noexcept {
    while (value >= 0x80) {
      data_[size_++] = static_cast<std::uint8_t>(value | 0x80);
      value >>= 7;
    }
    data_[size_++] = static_cast<std::uint8_t>(value);
  }

  template <class Integer>
  void little_endian(Integer value) noexcept {
    static_assert(std::endian::native == std::endian::little);
    std::memcpy(data_.get() + size_, &value, sizeof(value));
    size_ += sizeof(value);
  }

  std::unique_ptr<std::uint8_t[]> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace torchprof
