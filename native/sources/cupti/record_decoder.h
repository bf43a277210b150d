// Reads CUPTI's activity records into a recording's log. On the collector's own thread, without the GIL.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/device_clock.h"
#include "core/device_collector.h"
#include "core/device_log.h"
#include "sources/cupti/cupti_api.h"

namespace torchprof::cupti {

// Correlation ids of CUPTI have 32 bits and come round again after four billion calls; ours do not.
class CorrelationIds {
 public:
  [[nodiscard]] std::int64_t widen(std::uint32_t id) noexcept {
    // The nearest to the last one with these low bits: records come nearly in order.
    latest_ =
        latest_ < 0 ? id : latest_ + static_cast<std::int32_t>(id - static_cast<std::uint32_t>(latest_));
    return latest_;
  }

 private:
  std::int64_t latest_ = -1;  // none yet
};

class RecordDecoder {
 public:
  // What ended before `first` was not of this capture.
  RecordDecoder(const Libraries& libraries, DeviceLog& log, const DeviceClockPair& first) noexcept;

  // The clock was read after the buffer was filled.
  void decode(std::uint8_t* buffer, std::size_t valid_bytes, const DeviceClockLine& clock);

  // On the same thread.
  [[nodiscard]] const DeviceCounts& counts() const noexcept { return counts_; }

 private:
  void decode_record(const std::byte* record);
  void add_kernel(const std::byte* record);
  void add_copy(const std::byte* record, std::size_t correlation, std::size_t graph_node, std::size_t graph);
  void add_memset(const std::byte* record);
  void add_graph(const std::byte* record);
  void add_synchronization(const std::byte* record);
  void add_call(const std::byte* record, EventKind kind);
  void add_overhead(const std::byte* record);
  void add_external_id(const std::byte* record);

  // Two registers: a std::optional would go through memory, written in pieces and read back as one.
  struct Times {
    std::uint64_t start_ticks = 0;
    std::uint64_t end_ticks = 0;

    [[nodiscard]] bool are_known() const noexcept { return start_ticks != 0; }
  };
  // Not known, and counted, of what cannot be recorded.
  [[nodiscard]] Times times_of(const std::byte* record, std::size_t start, std::size_t end) noexcept;
  // Records to be added, of which no more is known yet.
  [[nodiscard]] DeviceWorkRecord& next_work(EventKind kind, Times times) noexcept;
  [[nodiscard]] DeviceCallRecord& next_call(EventKind kind, Times times) noexcept;

  void set_thread(DeviceCallRecord& call, std::uint32_t os_thread_id);
  [[nodiscard]] std::uint32_t kernel_name_id(const char* name);
  // Looks at the name itself.
  [[nodiscard]] std::uint32_t checked_kernel_name_id(const char* name);
  [[nodiscard]] std::uint32_t call_name_id(std::uint32_t domain, std::uint32_t callback_id);
  // Of names that few records have: interned anew each time the key is.
  template <typename Make>
  [[nodiscard]] std::uint32_t small_name_id(std::uint64_t key, Make make);
  [[nodiscard]] std::uint16_t multiprocessors_of(std::uint32_t device);
  [[nodiscard]] std::uint32_t ordinal_of(std::uint32_t os_thread_id);

  struct KernelName {
    std::string mangled;  // an address may come to carry another name
    std::uint32_t id;
  };

  // Checked once in a buffer: by the time it is read an address carries one name for all of its records.
  struct KernelAddress {
    const char* name;
    std::uint64_t buffer;  // the number of the one that it was checked in; 0 = none
    std::uint32_t id;
  };
  static constexpr unsigned kKernelAddressBits = 9;

  const Libraries& libraries_;
  DeviceLog& log_;
  DeviceClockPair first_;
  // To be copied: for an aggregate of this size compilers set all bytes to 0 first, by a slow instruction.
  DeviceWorkRecord nothing_known_{};
  DeviceClockLine clock_;
  CorrelationIds correlations_;
  DeviceCounts counts_;
  std::array<KernelAddress, std::size_t{1} << kKernelAddressBits> kernel_addresses_{};
  std::unordered_map<const char*, KernelName> kernel_names_;
  std::unordered_map<std::uint64_t, std::uint32_t> names_;
  std::array<std::vector<std::uint32_t>, 2> call_names_;  // runtime and driver, by callback id; 0 = not yet
  std::vector<std::int32_t> multiprocessors_;             // by device; -1 = not yet
  std::uint32_t last_thread_ = 0;
  std::uint32_t last_ordinal_ = 0;
};

}  // namespace torchprof::cupti
