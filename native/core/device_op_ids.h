// Ids under which ops are known to a device's collector, and the ids that a thread has pushed.
//
// An id is where the op's record lies in its recording, and which recording that is: nothing is stored for
// it, and what comes late for a recording that has ended is told from what belongs to this one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/active_recording.h"
#include "core/layout.h"

namespace torchprof {

class DeviceCollector;

[[nodiscard]] inline std::uint64_t device_op_id(ActiveRecording& recording, const OpRecord& op) noexcept {
  return (recording.id() << 32U) | (recording.arena().offset_of(&op) / kPayloadAlignBytes);
}
[[nodiscard]] inline bool is_op_of(std::uint64_t id, const ActiveRecording& recording) noexcept {
  return id >> 32U == (recording.id() & 0xFFFFFFFFU);
}
// As DeviceOpRecord::op.
[[nodiscard]] inline std::uint32_t op_place(std::uint64_t id) noexcept {
  return static_cast<std::uint32_t>(id);
}

// The record of an op of this recording.
[[nodiscard]] inline const OpRecord& op_at(std::uint64_t id, ActiveRecording& recording) noexcept {
  return *reinterpret_cast<const OpRecord*>(recording.arena().bytes().data() +
                                            (std::size_t{op_place(id)} * kPayloadAlignBytes));
}

// The ids that one thread has pushed and not popped, innermost last. Owner only.
class PushedOps {
 public:
  [[nodiscard]] bool empty() const noexcept { return ops_.empty(); }
  void push(DeviceCollector& collector, std::uint64_t id, const OpRecord& op) noexcept;
  // Pops the op and all that was pushed after it: what ended on another thread, or never. Nothing for an op
  // that was not pushed, or was popped so.
  void pop(const OpRecord& op) noexcept;
  void pop_all() noexcept;

 private:
  static constexpr std::size_t kMaxPushed = 1024;

  void pop_from(std::size_t first) noexcept;

  DeviceCollector* collector_ = nullptr;  // of all of them
  std::vector<const OpRecord*> ops_;
};

}  // namespace torchprof
