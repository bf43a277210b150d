#include "core/inputs_decoder.h"

#include <cstring>
#include <limits>
#include <vector>

namespace torchprof {
namespace {

class Decoder {
 public:
  Decoder(std::span<const std::uint8_t> bytes, InputsVisitor& visitor) : rest_(bytes), visitor_(visitor) {}

  bool arguments() {
    std::uint64_t count = 0;
    return element_count(count) && elements(count, 0) && rest_.empty();
  }

 private:
  bool byte(std::uint8_t& value) {
    if (rest_.empty()) return false;
    value = rest_.front();
    rest_ = rest_.subspan(1);
    return true;
  }

  bool varint(std::uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      std::uint8_t next = 0;
      if (!byte(next)) return false;
      if (shift == 63 && next > 1) return false;
      value |= static_cast<std::uint64_t>(next & 0x7F) << shift;
      if ((next & 0x80) == 0) return true;
    }
    return false;
  }

  bool zigzag(std::int64_t& value) {
    std::uint64_t encoded = 0;
    if (!varint(encoded)) return false;
    value = static_cast<std::int64_t>((encoded >> 1) ^ (~(encoded & 1) + 1));
    return true;
  }

  // A count of things that take at least one byte each: bounds what is reserved for them.
  bool element_count(std::uint64_t& count) { return varint(count) && count <= rest_.size(); }

  bool real(double& value) {
    if (rest_.size() < sizeof(value)) return false;
    std::memcpy(&value, rest_.data(), sizeof(value));
    rest_ = rest_.subspan(sizeof(value));
    return true;
  }

  bool address(std::uint64_t& value) {
    if (rest_.size() < sizeof(value)) return false;
    std::memcpy(&value, rest_.data(), sizeof(value));
    rest_ = rest_.subspan(sizeof(value));
    return true;
  }

  // The identity and the tensor that it is of.
  bool identified_tensor() {
    TensorIdentity identity;
    std::int64_t device = 0;
    if (!address(identity.tensor) || !address(identity.storage) || !address(identity.data)) return false;
    if (!zigzag(identity.storage_offset) || !zigzag(identity.storage_bytes) || !zigzag(identity.version))
      return false;
    if (!zigzag(device) || device < -1 || device > std::numeric_limits<std::int32_t>::max()) return false;
    identity.device = static_cast<std::int32_t>(device);
    std::uint8_t tag = 0;
    if (!byte(identity.flags) || !byte(tag)) return false;
    visitor_.identity(identity);
    if (static_cast<InputTag>(tag) == InputTag::kTensor) return tensor();
    return static_cast<InputTag>(tag) == InputTag::kNestedTensor && nested_tensor();
  }

  bool nested_tensor() {
    std::uint8_t dtype = 0;
    std::uint8_t device_type = 0;
    std::uint64_t count = 0;
    if (!byte(dtype) || !byte(device_type) || !varint(count)) return false;
    visitor_.nested_tensor(dtype, device_type, count);
    return true;
  }

  bool string(std::string_view& value) {
    std::uint64_t byte_count = 0;
    if (!element_count(byte_count)) return false;
    value = {reinterpret_cast<const char*>(rest_.data()), byte_count};
    rest_ = rest_.subspan(byte_count);
    return true;
  }

  bool dimensions(std::vector<std::int64_t>& values, std::uint64_t count) {
    if (count > rest_.size()) return false;
    values.resize(count);
    for (std::int64_t& value : values) {
      if (!zigzag(value)) return false;
    }
    return true;
  }

  bool tensor() {
    std::uint8_t dtype = 0;
    std::uint8_t device_type = 0;
    std::uint8_t has_strides = 0;
    std::uint64_t count = 0;
    if (!byte(dtype) || !byte(device_type) || !varint(count) || !dimensions(sizes_, count)) return false;
    if (!byte(has_strides)) return false;
    if (has_strides == 0) {
      visitor_.tensor(dtype, device_type, sizes_, std::nullopt);
      return true;
    }
    if (!dimensions(strides_, count)) return false;
    visitor_.tensor(dtype, device_type, sizes_, std::span<const std::int64_t>(strides_));
    return true;
  }

  bool list(InputTag tag, unsigned depth) {
    std::uint64_t full_length = 0;
    std::uint64_t count = 0;
    if (depth >= kMaxInputDepth) return false;
    if (tag == InputTag::kCutList && !varint(full_length)) return false;
    if (!element_count(count)) return false;
    visitor_.begin_list(tag, tag == InputTag::kCutList ? full_length : count);
    if (!elements(count, depth + 1)) return false;
    visitor_.end_list();
    return true;
  }

  bool elements(std::uint64_t count, unsigned depth) {
    for (std::uint64_t index = 0; index < count; ++index) {
      if (!argument(depth)) return false;
    }
    return true;
  }

  bool argument(unsigned depth) {
    std::uint8_t tag = 0;
    if (!byte(tag)) return false;
    switch (static_cast<InputTag>(tag)) {
      case InputTag::kNone:
        visitor_.none();
        return true;
      case InputTag::kTensor:
        return tensor();
      case InputTag::kUndefinedTensor:
        visitor_.undefined_tensor();
        return true;
      case InputTag::kInt: {
        std::int64_t value = 0;
        if (!zigzag(value)) return false;
        visitor_.integer(value);
        return true;
      }
      case InputTag::kDouble: {
        double value = 0;
        if (!real(value)) return false;
        visitor_.real(value);
        return true;
      }
      case InputTag::kBool: {
        std::uint8_t value = 0;
        if (!byte(value)) return false;
        visitor_.boolean(value != 0);
        return true;
      }
      case InputTag::kString: {
        std::string_view value;
        if (!string(value)) return false;
        visitor_.string(value);
        return true;
      }
      case InputTag::kComplex: {
        double real_part = 0;
        double imaginary_part = 0;
        if (!real(real_part) || !real(imaginary_part)) return false;
        visitor_.complex(real_part, imaginary_part);
        return true;
      }
      case InputTag::kList:
      case InputTag::kTensorList:
      case InputTag::kCutList:
      case InputTag::kTuple:
        return list(static_cast<InputTag>(tag), depth);
      case InputTag::kNestedTensor:
        return nested_tensor();
      case InputTag::kIdentity:
        return identified_tensor();
      case InputTag::kOther: {
        std::string_view type_name;
        if (!string(type_name)) return false;
        visitor_.other(type_name);
        return true;
      }
    }
    return false;
  }

  std::span<const std::uint8_t> rest_;
  InputsVisitor& visitor_;
  std::vector<std::int64_t> sizes_;
  std::vector<std::int64_t> strides_;
};

}  // namespace

bool decode_inputs(std::span<const std::uint8_t> bytes, InputsVisitor& visitor) {
  return Decoder(bytes, visitor).arguments();
}

std::span<const std::uint8_t> encoded_inputs(const Recording& recording, std::uint64_t row) noexcept {
  const std::uint64_t offset = recording.events.payload[row];
  const std::span<const std::uint8_t> payload = recording.payload;
  if (offset == 0 || payload.size() < kInputsLengthBytes || offset > payload.size() - kInputsLengthBytes)
    return {};
  std::uint32_t byte_count = 0;
  std::memcpy(&byte_count, payload.data() + offset, sizeof(byte_count));
  if (byte_count > payload.size() - offset - kInputsLengthBytes) return {};
  return payload.subspan(offset + kInputsLengthBytes, byte_count);
}

}  // namespace torchprof
