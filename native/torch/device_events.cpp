#include "torch/device_events.h"

#include <c10/core/Device.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <cstdint>
#include <limits>
#include <memory>

namespace torchprof::bridge {
namespace {

using torch::profiler::impl::ProfilerStubs;
using Event = torch::profiler::impl::ProfilerVoidEventStub;
using StubsGetter = const ProfilerStubs* (*)();

// What torch has registered for a kind of device: its extension does so when it is loaded.
template <StubsGetter Stubs>
struct EventsOf {
  static void* record(std::int32_t* device) {
    try {
      auto event = std::make_unique<Event>();
      c10::DeviceIndex index = -1;
      std::int64_t host_ns = 0;  // not every backend takes a null pointer
      Stubs()->record(&index, event.get(), &host_ns);
      // NOLINTNEXTLINE(bugprone-signed-char-misuse,cert-str34-c): a number, no character
      *device = index;
      return event.release();
    } catch (...) {
      return nullptr;
    }
  }

  static double elapsed_ns(const void* from, const void* to) {
    constexpr double kNsPerUs = 1000.0;
    try {
      return kNsPerUs * static_cast<double>(
                            Stubs()->elapsed(static_cast<const Event*>(from), static_cast<const Event*>(to)));
    } catch (...) {
      return std::numeric_limits<double>::quiet_NaN();
    }
  }

  static void release(void* event) {
    try {
      delete static_cast<Event*>(event);
    } catch (...) {
      return;  // the device is gone, and its event with it
    }
  }

  static int synchronize() {
    try {
      Stubs()->synchronize();
      return TORCHPROF_OK;
    } catch (...) {
      return TORCHPROF_TORCH_REFUSED;
    }
  }

  static constexpr torchprof_device_events kTable{
      .record = record, .elapsed_ns = elapsed_ns, .release = release, .synchronize = synchronize};
};

template <StubsGetter Stubs>
const torchprof_device_events* events_if_any() {
  try {
    const ProfilerStubs* const stubs = Stubs();
    return stubs != nullptr && stubs->enabled() ? &EventsOf<Stubs>::kTable : nullptr;
  } catch (...) {
    return nullptr;
  }
}

}  // namespace

const torchprof_device_events* device_events(std::uint32_t kind) {
  switch (kind) {
    case TORCHPROF_DEVICE_EVENTS_CUDA:
      return events_if_any<torch::profiler::impl::cudaStubs>();
    case TORCHPROF_DEVICE_EVENTS_PRIVATEUSE1:
      return events_if_any<torch::profiler::impl::privateuse1Stubs>();
    default:
      return nullptr;
  }
}

}  // namespace torchprof::bridge
