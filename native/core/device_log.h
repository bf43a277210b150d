// What a capture writes of a device: the records of one collector in one recording. Used by the collector's
// thread only, but for counting drops.
#pragma once

#include <atomic>
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

  // Where the next record is to be written, to be filled and then added. In place: copied from elsewhere, its
  // fields would be read back in larger pieces than they were written in, which stalls a processor. Where the
  // recording has no room the record is counted as dropped, and adding it does nothing.
  [[nodiscard]] DeviceCallRecord& next_call() noexcept {
    return room_for<DeviceCallRecord>(calls_, spare_call_);
  }
  [[nodiscard]] DeviceWorkRecord& next_work() noexcept {
    return room_for<DeviceWorkRecord>(work_, spare_work_);
  }
  void add(const DeviceCallRecord& next) noexcept { commit(calls_, next, spare_call_); }
  void add(const DeviceWorkRecord& next) noexcept { commit(work_, next, spare_work_); }
  // The op with this id (device_op_ids.h) made the call; an id of another recording says nothing here.
  void add_op(std::int64_t correlation, std::uint64_t op_id) noexcept;

  // The name of the op with this id, as a string id; 0 for an id of another recording.
  [[nodiscard]] std::uint32_t name_of_op(std::uint64_t op_id) const noexcept;

  [[nodiscard]] std::uint32_t intern(std::string_view name) noexcept { return recording_.intern(name, {}); }
  // The ordinal of a thread of this process, its track made if need be; 0 when there is no room for it.
  [[nodiscard]] std::uint32_t ordinal_of(std::uint32_t os_thread_id) noexcept;

  // A thread of the recorder's own, whose calls are not the program's. On any thread.
  void set_own_thread(std::uint32_t os_thread_id) noexcept { own_thread_.store(os_thread_id); }
  [[nodiscard]] bool is_own_thread(std::uint32_t os_thread_id) const noexcept {
    return own_thread_.load(std::memory_order_relaxed) == os_thread_id;
  }

  // On any thread.
  void count_drops(DropReason reason, std::uint64_t count) noexcept { recording_.count_drops(reason, count); }

  // The last record was added: gives unused memory back.
  void close() noexcept;

 private:
  template <typename Record>
  [[nodiscard]] Record& room_for(ChunkCursor& cursor, Record& spare) noexcept {
    std::byte* room = cursor.reserve_fast(sizeof(Record));
    if (room == nullptr) [[unlikely]] {
      room = reserve(cursor, sizeof(Record));
    }
    return room != nullptr ? *reinterpret_cast<Record*>(room) : spare;
  }
  template <typename Record>
  void commit(ChunkCursor& cursor, const Record& next, const Record& spare) noexcept {
    if (&next != &spare) [[likely]] {
      cursor.commit_record(sizeof(Record));
    }
  }
  // As the cursor's; counts a drop.
  [[nodiscard]] std::byte* reserve(ChunkCursor& cursor, std::uint64_t size_bytes) noexcept;

  ActiveRecording& recording_;
  std::uint32_t slot_;
  ChunkCursor calls_{ChunkKind::kDeviceCalls, sizeof(DeviceCallRecord)};
  ChunkCursor work_{ChunkKind::kDeviceWork, sizeof(DeviceWorkRecord)};
  ChunkCursor ops_{ChunkKind::kDeviceOps, sizeof(DeviceOpRecord)};
  // Filled where there is no room.
  DeviceCallRecord spare_call_{};
  DeviceWorkRecord spare_work_{};
  DeviceOpRecord spare_op_{};
  std::atomic<std::uint32_t> own_thread_{0};  // 0 = none
  DropBackoff dropped_;
  std::unordered_map<std::uint32_t, std::uint32_t> ordinals_;  // by the system's thread id
};

}  // namespace torchprof
