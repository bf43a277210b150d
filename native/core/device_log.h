// What a capture writes of a device: the records of one collector in one recording. Used by the collector's
// thread only, but for counting drops.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "core/active_recording.h"
#include "core/chunk_cursor.h"
#include "core/drop_backoff.h"
#include "core/layout.h"

namespace torchprof {

class DeviceLog {
 public:
  // `slot`: of the capture.
  DeviceLog(ActiveRecording& recording, std::uint32_t slot) noexcept : recording_(recording), slot_(slot) {}
  DeviceLog(const DeviceLog&) = delete;
  DeviceLog& operator=(const DeviceLog&) = delete;

  void add(const DeviceCallRecord& call) noexcept { append(calls_, call); }
  void add(const DeviceWorkRecord& work) noexcept { append(work_, work); }
  // The op with this id (device_op_ids.h) made the call; an id of another recording says nothing here.
  void add_op(std::int64_t correlation, std::uint64_t op_id) noexcept;

  // The name of the op with this id, as a string id; 0 for an id of another recording.
  [[nodiscard]] std::uint32_t name_of_op(std::uint64_t op_id) const noexcept;

  [[nodiscard]] std::uint32_t intern(std::string_view name) noexcept { return recording_.intern(name, {}); }
  // The ordinal of a thread of this process, its track made if need be; 0 when there is no room for it.
  [[nodiscard]] std::uint32_t ordinal_of(std::uint32_t os_thread_id) noexcept;

  // On any thread.
  void count_drops(DropReason reason, std::uint64_t count) noexcept { recording_.count_drops(reason, count); }

  // The last record was added: gives unused memory back.
  void close() noexcept;

 private:
  template <typename Record>
  void append(ChunkCursor& cursor, const Record& record) noexcept;

  ActiveRecording& recording_;
  std::uint32_t slot_;
  ChunkCursor calls_{ChunkKind::kDeviceCalls, sizeof(DeviceCallRecord)};
  ChunkCursor work_{ChunkKind::kDeviceWork, sizeof(DeviceWorkRecord)};
  ChunkCursor ops_{ChunkKind::kDeviceOps, sizeof(DeviceOpRecord)};
  DropBackoff dropped_;
  std::unordered_map<std::uint32_t, std::uint32_t> ordinals_;  // by the system's thread id
};

}  // namespace torchprof
