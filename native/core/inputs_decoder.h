// Decodes the inputs of one op (inputs_encoding.h) without trusting the bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/inputs_encoding.h"
#include "core/recording.h"

namespace torchprof {

// Which tensor an argument was, and the memory behind it. Addresses are of what may be gone by now: another
// object may have got the same one later.
struct TensorIdentity {
  std::uint64_t tensor = 0;   // of the TensorImpl
  std::uint64_t storage = 0;  // of the StorageImpl, 0 = none
  std::uint64_t data = 0;     // of the first byte of the storage, 0 = none
  std::int64_t storage_offset = 0;
  std::int64_t storage_bytes = -1;  // -1 = not known
  std::int64_t version = -1;        // of the version counter, -1 = the tensor keeps none
  std::int32_t device = -1;         // index, -1 = not numbered
  std::uint8_t flags = 0;           // TensorFlags
};

// Gets one call an argument, in order; the elements of a list between begin_list and end_list.
class InputsVisitor {
 public:
  virtual ~InputsVisitor() = default;
  virtual void none() = 0;
  // Comes before the tensor or nested tensor that it is of, where identities were recorded.
  virtual void identity(const TensorIdentity&) {}
  // `strides` is empty when they were not recorded.
  virtual void tensor(std::uint8_t dtype, std::uint8_t device_type, std::span<const std::int64_t> sizes,
                      std::optional<std::span<const std::int64_t>> strides) = 0;
  virtual void undefined_tensor() = 0;
  virtual void nested_tensor(std::uint8_t dtype, std::uint8_t device_type, std::uint64_t dimensions) = 0;
  virtual void integer(std::int64_t value) = 0;
  virtual void real(double value) = 0;
  virtual void boolean(bool value) = 0;
  virtual void string(std::string_view bytes) = 0;
  virtual void complex(double real, double imaginary) = 0;
  virtual void other(std::string_view type_name) = 0;
  // `full_length` is larger than the number of elements that follow when the list was cut.
  virtual void begin_list(InputTag tag, std::uint64_t full_length) = 0;
  virtual void end_list() = 0;
};

// False when the bytes are damaged; the visitor has then seen what came before the damage.
bool decode_inputs(std::span<const std::uint8_t> bytes, InputsVisitor& visitor);

// The encoded inputs of an event; empty when it has none or they do not lie within the payload.
[[nodiscard]] std::span<const std::uint8_t> encoded_inputs(const Recording& recording,
                                                           std::uint64_t row) noexcept;

}  // namespace torchprof
