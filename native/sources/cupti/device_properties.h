// What the driver says of the devices of a process, once it has started.
#pragma once

#include <vector>

#include "core/device_collector.h"
#include "sources/cupti/cupti_api.h"

namespace torchprof::cupti {

[[nodiscard]] std::vector<DeviceProperties> device_properties(const CudaApi& cuda, int count);

}  // namespace torchprof::cupti
