// What a CUDA build of torch is linked with beside what the collector calls: without these it does not load
// where the stand-in is loaded already. None of it does anything.
#include <cstddef>
#include <cstdint>

#define STAND_IN extern "C" __attribute__((visibility("default"))) int

STAND_IN cuptiActivityEnableCudaEventDeviceTimestamps(std::uint8_t) { return 0; }
STAND_IN cuptiActivityRegisterTimestampCallback(void*) { return 0; }
STAND_IN cuptiActivitySetAttribute(int, std::size_t*, void*) { return 0; }
STAND_IN cuptiEnableCallback(std::uint32_t, void*, int, std::uint32_t) { return 0; }
STAND_IN cuptiEnableDomain(std::uint32_t, void*, int) { return 0; }
STAND_IN cuptiFinalize() { return 0; }
