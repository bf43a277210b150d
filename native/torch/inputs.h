// The inputs of an op as bytes, in the encoding of core/inputs_encoding.h.
#pragma once

#include <ATen/core/ivalue.h>

#include <cstddef>
#include <cstdint>

namespace torchprof::bridge {

// Bound on the inputs of one op; arguments that do not fit are left out.
inline constexpr std::size_t kMaxInputsBytes = 64 * 1024;

struct EncodedInputs {
  const std::uint8_t* data = nullptr;  // null when there are none
  std::size_t size_bytes = 0;
  bool cut = false;  // inputs past the bound were left out
};

// Encodes into a buffer of the calling thread, valid until the thread's next call. Reads what the tensors
// store about themselves and nothing more: no reference is kept, no Python is called, no device waited for.
// `with_identities`: which tensors they are, too.
EncodedInputs encode_inputs(c10::ArrayRef<const c10::IValue> inputs, bool with_identities);

}  // namespace torchprof::bridge
