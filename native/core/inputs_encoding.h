// How the inputs of one op are laid out in a payload: shared by the torch bridge, which writes them, and
// the decoder. docs/recording-format.md has the same in prose.
//
//   payload := u32 byte_count, bytes[byte_count]
//   bytes   := varint argument_count, argument*
//   argument := u8 InputTag, body (below)
//
// A varint is unsigned LEB128 (at most 10 bytes); a zigzag is a varint of (n << 1) ^ (n >> 63).
// Plain C++17 and free of the rest of the core, so that the bridge can include it alone.
#pragma once

#include <cstddef>
#include <cstdint>

namespace torchprof {

enum class InputTag : std::uint8_t {
  kNone = 0,
  kTensor = 1,           // u8 dtype, u8 device type, varint ndim, zigzag size * ndim,
                         // u8 has_strides, zigzag stride * ndim when has_strides
  kUndefinedTensor = 2,  // -
  kInt = 3,              // zigzag
  kDouble = 4,           // 8 bytes, IEEE 754, little endian
  kBool = 5,             // u8
  kString = 6,           // varint byte count, bytes (cut at kMaxInputStringBytes)
  kComplex = 7,          // two kDouble bodies
  kList = 8,             // varint n, argument * n
  kTensorList = 9,       // varint n, (kTensor | kUndefinedTensor | kNestedTensor argument) * n
  kCutList = 10,         // varint full length, varint kept n, argument * n
  kNestedTensor = 11,    // u8 dtype, u8 device type, varint ndim: sizes are not readable
  kOther = 12,           // a kString body with the name of its type
  kTuple = 13,           // a tuple or dict: as kList
  kIdentity = 14,        // which tensor the kTensor or kNestedTensor argument after it is:
                         // u64 tensor, u64 storage, u64 data (addresses), zigzag storage offset, zigzag
                         // storage bytes, zigzag version, zigzag device index, u8 flags (TensorFlags)
};

// dtype is c10::ScalarType, device type is c10::DeviceType, both by value.

enum TensorFlags : std::uint8_t {
  kTensorRequiresGrad = 1 << 0,
};

inline constexpr std::size_t kMaxInputStringBytes = 256;
// Longer lists of anything but tensors become kCutList with this many elements kept.
inline constexpr std::size_t kMaxInputListItems = 64;
// Lists within lists go no deeper; the decoder refuses what does.
inline constexpr unsigned kMaxInputDepth = 8;

// The bytes of the u32 in front of the encoded inputs.
inline constexpr std::size_t kInputsLengthBytes = 4;

}  // namespace torchprof
