// What a torch bridge would report, and what the recorder made of it, for tests without torch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/capture.h"
#include "core/op_hooks.h"
#include "core/reader.h"

namespace torchprof::testing {

inline constexpr std::uint64_t kSmallCapBytes = 4ULL << 20U;
inline constexpr std::uint64_t kCapBytes = 64ULL << 20U;

// Stands for an at::RecordFunction: its address is the op's key.
struct FakeOp {
  char placeholder = 0;

  void start(std::uint32_t slot, const char* name, const char* overload = "",
             const std::vector<std::uint8_t>* inputs = nullptr) {
    torchprof_op_start op{};
    op.key = this;
    op.name = name;
    op.overload = overload;
    op.sequence = -1;
    op.torch_thread = 7;
    op.inputs = inputs != nullptr ? inputs->data() : nullptr;
    op.inputs_bytes = inputs != nullptr ? inputs->size() : 0;
    core_table().op_start(slot, &op);
  }
  void end(std::uint32_t slot, bool is_async = false) const {
    core_table().op_end(slot, this, is_async ? 1 : 0);
  }
};

inline void record_op(std::uint32_t slot, const char* name) {
  FakeOp op;
  op.start(slot, name);
  op.end(slot);
}

inline std::uint32_t start(Capture& capture) { return static_cast<std::uint32_t>(capture.start()); }

inline Recording read(const Capture& capture) { return read_recording(capture.bytes(), capture.owner()); }

inline std::string name_of(const Recording& recording, std::size_t row) {
  return std::string(recording.strings.name(recording.events.name[row]));
}

inline std::size_t count_named(const Recording& recording, std::string_view name) {
  std::size_t count = 0;
  for (const std::uint32_t id : recording.events.name) {
    count += recording.strings.name(id) == name ? 1 : 0;
  }
  return count;
}

// The row of the only event with this name; the number of rows when there is none or more than one.
inline std::size_t only_row(const Recording& recording, std::string_view name) {
  std::size_t found = recording.events.size();
  for (std::size_t row = 0; row < recording.events.size(); ++row) {
    if (name_of(recording, row) == name) {
      if (found != recording.events.size()) {
        return recording.events.size();
      }
      found = row;
    }
  }
  return found;
}

inline std::uint64_t drops(const Capture& capture, DropReason reason) {
  return capture.drops()[static_cast<std::size_t>(reason)];
}

inline std::uint64_t all_drops(const Capture& capture) {
  std::uint64_t sum = 0;
  for (const std::uint64_t count : capture.drops()) {
    sum += count;
  }
  return sum;
}

}  // namespace torchprof::testing
