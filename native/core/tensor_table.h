// The tensors that ops were given, a row each: what an analysis of data flow starts from.
#pragma once

#include <cstdint>
#include <vector>

#include "core/recording.h"

namespace torchprof {

// One tensor among the inputs of one event; see TensorIdentity.
struct TensorRecord {
  std::int64_t event;
  std::uint64_t tensor;
  std::uint64_t storage;
  std::uint64_t address;  // of the first byte of the storage
  std::int64_t storage_offset;
  std::int64_t storage_bytes;
  std::int64_t version;
  std::int64_t elements;  // -1 = not known
  std::int32_t argument;  // its place among the arguments
  std::int32_t item;      // its place in a list, -1 = not in one
  std::int32_t device;
  std::uint8_t device_type;
  std::uint8_t dtype;
  std::uint8_t flags;  // TensorFlags
  std::uint8_t reserved;
};
static_assert(sizeof(TensorRecord) == 80);

struct TensorTable {
  std::vector<TensorRecord> rows;  // by event, argument, item
  std::uint64_t damaged_inputs = 0;
};

// Only tensors whose identity was recorded.
[[nodiscard]] TensorTable tensor_table(const Recording& recording);

}  // namespace torchprof
