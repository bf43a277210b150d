// Stands in for libcuda.so.1, as far as the collector asks it.
#define STAND_IN extern "C" __attribute__((visibility("default"))) int

STAND_IN cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
STAND_IN cuDeviceGetCount(int* count) {
  *count = 2;
  return 0;
}
STAND_IN cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}
STAND_IN cuDeviceGetAttribute(int* value, int attribute, int device) {
  constexpr int kMultiprocessorCount = 16;
  *value = attribute == kMultiprocessorCount && device == 0 ? 132 : 0;
  return 0;
}
