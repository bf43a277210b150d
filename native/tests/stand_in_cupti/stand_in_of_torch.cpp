// What a CUDA build of torch is linked with beside what the collector calls: without these it does not load
// where the stand-in is loaded already. None of it does anything.
#include <cstddef>
#include <cstdint>

#define EXPORTED extern "C" __attribute__((visibility("default"))) int

EXPORTED cuptiActivityEnableCudaEventDeviceTimestamps(std::uint8_t) { return 0; }
EXPORTED cuptiActivityRegisterTimestampCallback(void*) { return 0; }
EXPORTED cuptiActivitySetAttribute(int, std::size_t*, void*) { return 0; }
EXPORTED cuptiEnableCallback(std::uint32_t, void*, int, std::uint32_t) { return 0; }
EXPORTED cuptiEnableDomain(std::uint32_t, void*, int) { return 0; }
EXPORTED cuptiFinalize() { return 0; }
