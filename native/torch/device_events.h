// Device work timed by events in the device's streams: torch's own way where there is no tracing interface.
#pragma once

#include <cstdint>

#include "torch/bridge_abi.h"

namespace torchprof::bridge {

// Of a kind of device (TORCHPROF_DEVICE_EVENTS_*); nullptr where this torch has none for it.
const torchprof_device_events* device_events(std::uint32_t kind);

}  // namespace torchprof::bridge
