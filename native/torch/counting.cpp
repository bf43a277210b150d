#include "torch/counting.h"

#include <ATen/record_function.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "torch/bridge_abi.h"
#include "torch/core_table.h"
#include "torch/switch_lock.h"

namespace torchprof::bridge {
namespace {

std::uint8_t flags_of(const at::RecordFunction& fn) noexcept {
  const at::RecordScope scope = fn.scope();
  unsigned flags = 0;
  if (scope == at::RecordScope::USER_SCOPE) flags |= TORCHPROF_COUNT_USER;
  if (scope == at::RecordScope::BACKWARD_FUNCTION) flags |= TORCHPROF_COUNT_BACKWARD;
  if (fn.seqNr() >= 0) flags |= TORCHPROF_COUNT_SEQUENCED;
  if (fn.isAsync()) flags |= TORCHPROF_COUNT_ASYNC;
  return static_cast<std::uint8_t>(flags);
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& fn) {
  // An exception that left this function would end in the user's op.
  try {
    core->count_start(&fn, fn.name(), flags_of(fn));
  } catch (...) {
    return nullptr;  // the core counts the end that follows as unmatched
  }
  return nullptr;
}

void on_end(const at::RecordFunction& fn, at::ObserverContext*) {
  core->count_end(&fn, fn.isAsync() ? 1 : 0);
}

at::CallbackHandle registered = at::INVALID_CALLBACK_HANDLE;

}  // namespace

int enable_counting() {
  try {
    const std::unique_lock lock = lock_switches();
    if (registered == at::INVALID_CALLBACK_HANDLE) {
      registered = at::addGlobalCallback(at::RecordFunctionCallback(on_start, on_end));
    }
    return TORCHPROF_OK;
  } catch (...) {
    return TORCHPROF_TORCH_REFUSED;
  }
}

int disable_counting() {
  try {
    const std::unique_lock lock = lock_switches();
    if (registered != at::INVALID_CALLBACK_HANDLE) {
      at::removeCallback(std::exchange(registered, at::INVALID_CALLBACK_HANDLE));
    }
    return TORCHPROF_OK;
  } catch (...) {
    return TORCHPROF_TORCH_REFUSED;
  }
}

}  // namespace torchprof::bridge
