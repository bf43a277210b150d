#include "core/tensor_roles.h"

#include <mutex>
#include <new>

#include "core/active_recording.h"
#include "core/clock.h"

namespace torchprof {

std::uint32_t ActiveRecording::intern(std::string_view name, std::string_view overload) noexcept {
  const Name key{.name = name, .overload = overload};
  return strings_.intern(key, key.hash()).id;
}

void ActiveRecording::add_tensor_roles(std::span<const TensorRoleRecord> records) noexcept {
  const std::lock_guard lock(mutex_);
  if (finished_) {
    return;
  }
  const std::uint64_t now = ticks();
  for (const TensorRoleRecord& record : records) {
    std::byte* room = tensor_roles_.reserve(arena_, sizeof(TensorRoleRecord));
    if (room == nullptr) {
      count_drops(tensor_roles_.failure());
      return;
    }
    new (room) TensorRoleRecord(record);
    std::launder(reinterpret_cast<TensorRoleRecord*>(room))->time = now;
    tensor_roles_.commit_record(sizeof(TensorRoleRecord));
  }
}

std::vector<TensorRoleRecord> read_tensor_roles(std::span<const std::byte> file,
                                                const std::vector<Chunk>& chunks, const StringIds& strings,
                                                TimeReader& times, ProblemCounts& problems) {
  std::vector<TensorRoleRecord> roles;
  for (const Chunk& chunk : chunks) {
    if (chunk.kind != ChunkKind::kTensorRoles) continue;
    for (TensorRoleRecord record : records_of<TensorRoleRecord>(file, chunk)) {
      record.time = static_cast<std::uint64_t>(times.unix_ns(record.time));
      record.name = strings.find(record.name, problems);
      roles.push_back(record);
    }
  }
  return roles;
}

}  // namespace torchprof
