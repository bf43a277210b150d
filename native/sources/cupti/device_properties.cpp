#include "sources/cupti/device_properties.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace torchprof::cupti {
namespace {

struct Attribute {
  int number;  // CUdevice_attribute
  int DeviceProperties::*property;
};
constexpr std::array kAttributes{
    Attribute{1, &DeviceProperties::max_threads_per_block},
    Attribute{8, &DeviceProperties::shared_bytes_per_block},
    Attribute{10, &DeviceProperties::warp_size},
    Attribute{12, &DeviceProperties::registers_per_block},
    Attribute{16, &DeviceProperties::multiprocessors},
    Attribute{39, &DeviceProperties::max_threads_per_multiprocessor},
    Attribute{75, &DeviceProperties::compute_major},
    Attribute{76, &DeviceProperties::compute_minor},
    Attribute{81, &DeviceProperties::shared_bytes_per_multiprocessor},
    Attribute{82, &DeviceProperties::registers_per_multiprocessor},
    Attribute{97, &DeviceProperties::max_shared_bytes_per_block},
    Attribute{106, &DeviceProperties::max_blocks_per_multiprocessor},
};

DeviceProperties properties_of(const CudaApi& cuda, int device) {
  DeviceProperties found;
  std::array<char, 256> name{};
  if (cuda.get_device_name(name.data(), static_cast<int>(name.size()) - 1, device) == 0) {
    found.name = name.data();
  }
  std::size_t memory_bytes = 0;
  if (cuda.get_device_memory(&memory_bytes, device) == 0) {
    found.memory_bytes = static_cast<std::int64_t>(memory_bytes);
  }
  for (const Attribute& attribute : kAttributes) {
    int value = 0;
    if (cuda.get_device_attribute(&value, attribute.number, device) == 0) {
      found.*attribute.property = value;
    }
  }
  return found;
}

}  // namespace

std::vector<DeviceProperties> device_properties(const CudaApi& cuda, int count) {
  constexpr int kMaxDevices = 256;
  std::vector<DeviceProperties> found;
  for (int ordinal = 0; ordinal < std::min(count, kMaxDevices); ++ordinal) {
    int device = 0;
    const bool is_there = cuda.get_device(&device, ordinal) == 0;
    found.push_back(is_there ? properties_of(cuda, device) : DeviceProperties{});
  }
  return found;
}

}  // namespace torchprof::cupti
