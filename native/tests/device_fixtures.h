// A capture of the stand-in device, for tests.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fake_torch.h"
#include "sources/cupti/cupti_collector.h"
#include "stand_in_cupti.h"

namespace torchprof::testing {

inline constexpr std::uint32_t kCupti13_0 = 130'000;
inline constexpr std::uint32_t kLaunchKernel = 211;
inline constexpr std::uint32_t kCopyAsync = 41;
inline constexpr std::uint32_t kDeviceSynchronize = 165;
inline constexpr std::uint32_t kDriverLaunchKernel = 307;

inline DeviceCollector& collector() { return cupti::CuptiCollector::instance(); }

inline DeviceOptions all_kinds() {
  return {.libraries = {},
          .kinds = {DeviceKind::kKernel, DeviceKind::kMemcpy, DeviceKind::kMemset, DeviceKind::kRuntime,
                    DeviceKind::kDriver, DeviceKind::kSync, DeviceKind::kOverhead}};
}

// Launches a kernel that takes `duration_ns` from now on. Returns the correlation id.
inline std::uint32_t launch(const char* name, std::uint32_t stream = 7, std::uint64_t duration_ns = 1'000) {
  const std::uint32_t correlation = stand_in_call(kLaunchKernel, 0);
  const std::uint64_t start_ns = stand_in_now_ns();
  stand_in_kernel(name, correlation, 0, stream, start_ns, start_ns + duration_ns);
  return correlation;
}

struct DeviceCapture {
  explicit DeviceCapture(const DeviceOptions& options = all_kinds(), std::uint32_t version = kCupti13_0) {
    stand_in_reset(version);
    slot = start(capture);
    capture.start_device(collector(), options);
  }
  // What was recorded.
  Recording finish() {
    capture.stop();
    return read(capture);
  }

  Capture capture{"", kCapBytes};
  std::uint32_t slot = 0;
};

inline const DeviceRecord* device_record(const Recording& recording, std::size_t row) {
  for (const DeviceRecord& record : recording.devices) {
    if (record.event == row) return &record;
  }
  return nullptr;
}

// The row that launched this one; the number of rows when none did.
inline std::size_t launcher_of(const Recording& recording, std::size_t row) {
  for (std::size_t i = 0; i < recording.links.to.size(); ++i) {
    if (recording.links.to[i] == row &&
        recording.links.type[i] == static_cast<std::uint32_t>(LinkType::kLaunch)) {
      return recording.links.from[i];
    }
  }
  return recording.events.size();
}

}  // namespace torchprof::testing
