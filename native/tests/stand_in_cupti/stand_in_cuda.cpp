// Stands in for libcuda.so.1, as far as the collector asks it.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <map>

#define STAND_IN extern "C" __attribute__((visibility("default"))) int

namespace {

constexpr int kNotInitialized = 3;
constexpr int kNotSupported = 801;

bool is_initialized = false;

int from_environment(const char* name, int otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr ? static_cast<int>(std::strtol(value, nullptr, 10)) : otherwise;
}

}  // namespace

// What tests set: STAND_IN_CUDA_INIT, the result; STAND_IN_CUDA_DRIVER, the version.
STAND_IN cuInit(unsigned) {
  const int result = from_environment("STAND_IN_CUDA_INIT", 0);
  is_initialized = result == 0;
  return result;
}
STAND_IN cuGetErrorName(int error, const char** name) {
  *name = error == 100 ? "CUDA_ERROR_NO_DEVICE" : nullptr;
  return error == 100 ? 0 : 1;
}
STAND_IN cuDriverGetVersion(int* version) {
  *version = from_environment("STAND_IN_CUDA_DRIVER", 13000);
  return 0;
}
STAND_IN cuDeviceGetCount(int* count) {
  *count = 2;
  return is_initialized ? 0 : kNotInitialized;
}
STAND_IN cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}
// As of an H200, but for the second device: of that only the name is known.
STAND_IN cuDeviceGetAttribute(int* value, int attribute, int device) {
  static const std::map<int, int> kValues{{1, 1024},    {8, 49152},  {10, 32},     {12, 65536},
                                          {16, 132},    {39, 2048},  {75, 9},      {76, 0},
                                          {81, 233472}, {82, 65536}, {97, 232448}, {106, 32}};
  const auto known = kValues.find(attribute);
  if (device != 0 || known == kValues.end()) return kNotSupported;
  *value = known->second;
  return 0;
}
STAND_IN cuDeviceGetName(char* name, int size_bytes, int device) {
  std::snprintf(name, static_cast<std::size_t>(size_bytes), "stand-in %d", device);
  return 0;
}
STAND_IN cuDeviceTotalMem_v2(std::size_t* size_bytes, int device) {
  *size_bytes = 150'754'820'096;
  return device == 0 ? 0 : kNotSupported;
}
