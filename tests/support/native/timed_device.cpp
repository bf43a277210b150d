// A device whose clock moves when it is told to: what an extension registers with torch to be timed by
// events.
#include <c10/core/Device.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace {

using torch::profiler::impl::ProfilerStubs;
using torch::profiler::impl::ProfilerVoidEventStub;

std::atomic<std::int64_t> now_us{0};
std::atomic<bool> refuses{false};

struct TimedDevice : ProfilerStubs {
  void record(c10::DeviceIndex* device, ProfilerVoidEventStub* event, std::int64_t* host_ns) const override {
    TORCH_CHECK(!refuses.load(), "the device is gone");
    // Torch's own profiler asks for neither.
    if (device != nullptr) *device = 0;
    if (host_ns != nullptr) *host_ns = 0;
    *event = std::make_shared<std::int64_t>(now_us.load());
  }
  float elapsed(const ProfilerVoidEventStub* from, const ProfilerVoidEventStub* to) const override {
    const auto at = [](const ProfilerVoidEventStub& event) {
      return *static_cast<const std::int64_t*>(event.get());
    };
    return static_cast<float>(at(*to) - at(*from));
  }
  void mark(const char*) const override {}
  void rangePush(const char*) const override {}
  void rangePop() const override {}
  bool enabled() const override { return true; }
  void onEachDevice(std::function<void(int)> on_device) const override { on_device(0); }
  void synchronize() const override {}
};

TimedDevice device;

}  // namespace

#define EXPORTED __attribute__((visibility("default")))

extern "C" {

EXPORTED void register_cuda() { torch::profiler::impl::registerCUDAMethods(&device); }
EXPORTED void register_privateuse1() { torch::profiler::impl::registerPrivateUse1Methods(&device); }
EXPORTED void work_us(std::int64_t us) { now_us += us; }
EXPORTED void refuse(int wanted) { refuses = wanted != 0; }
}
