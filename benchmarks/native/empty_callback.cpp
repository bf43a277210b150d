// The least a RecordFunction callback can cost: a pair that does nothing. The anchor of
// benchmarks/record_op.py.
#include <ATen/record_function.h>

#include <memory>
#include <utility>

namespace {

at::CallbackHandle registered = at::INVALID_CALLBACK_HANDLE;

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction&) { return nullptr; }

void on_end(const at::RecordFunction&, at::ObserverContext*) {}

}  // namespace

extern "C" __attribute__((visibility("default"))) void empty_callback_enable() {
  registered = at::addGlobalCallback(at::RecordFunctionCallback(on_start, on_end));
}

extern "C" __attribute__((visibility("default"))) void empty_callback_disable() {
  at::removeCallback(std::exchange(registered, at::INVALID_CALLBACK_HANDLE));
}
