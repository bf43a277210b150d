#include "core/device_log.h"

#include <new>

#include "core/device_op_ids.h"
#include "core/registry.h"

namespace torchprof {

std::byte* DeviceLog::reserve(ChunkCursor& cursor, std::uint64_t size_bytes) noexcept {
  return dropped_.reserve(recording_, [&](DropReason& failure) noexcept {
    std::byte* const taken = cursor.reserve(recording_.arena(), size_bytes);
    failure = cursor.failure();
    return taken;
  });
}

void DeviceLog::add_op(std::int64_t correlation, std::uint64_t op_id) noexcept {
  if (is_op_of(op_id, recording_)) {
    DeviceOpRecord& op = room_for(ops_, spare_op_);
    op = {.correlation = correlation, .op = op_place(op_id), .reserved = 0};
    commit(ops_, op, spare_op_);
  }
}

std::uint32_t DeviceLog::name_of_op(std::uint64_t op_id) const noexcept {
  return is_op_of(op_id, recording_) ? op_at(op_id, recording_).name : 0;
}

std::uint32_t DeviceLog::ordinal_of(std::uint32_t os_thread_id) noexcept {
  if (const auto known = ordinals_.find(os_thread_id); known != ordinals_.end()) {
    return known->second;
  }
  const std::uint32_t ordinal = Registry::instance().ordinal_of(slot_, recording_, os_thread_id);
  try {
    ordinals_.emplace(os_thread_id, ordinal);
  } catch (const std::bad_alloc&) {
    return ordinal;  // asked for again
  }
  return ordinal;
}

void DeviceLog::close() noexcept {
  for (ChunkCursor* cursor : {&calls_, &work_, &ops_}) {
    cursor->close(recording_.arena());
  }
  dropped_.close(recording_);
}

}  // namespace torchprof
