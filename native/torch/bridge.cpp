// The torch bridge: RecordFunction callbacks that hand every op to the core. Together with inputs.cpp the
// only code that sees ATen, compiled for one exact torch, because at::RecordFunction has no stable ABI.
//
// Callbacks are templates on the capture slot: each capture registers a pair of its own, so torch runs a
// slot's start and end for the same ops, however captures overlap.
#include <ATen/record_function.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "torch/bridge_abi.h"
#include "torch/inputs.h"

#ifndef TORCHPROF_TORCH_VERSION
#error "TORCHPROF_TORCH_VERSION must name the torch this bridge is compiled for"
#endif

namespace torchprof::bridge {
namespace {

using Observer = std::unique_ptr<at::ObserverContext>;

constexpr std::size_t kSlots = TORCHPROF_CAPTURE_SLOTS;
constexpr int kOk = 0;
constexpr int kNoSuchSlot = 1;
constexpr int kTorchRefused = 2;

// Written once, before the first callback is registered.
const torchprof_core_table* core = nullptr;

// An op whose inputs torch does not give is recorded without them.
EncodedInputs inputs_of(const at::RecordFunction& fn) noexcept {
  try {
    return encode_inputs(fn.inputs());
  } catch (...) {
    return {.data = nullptr, .size_bytes = 0, .cut = true};
  }
}

template <std::uint32_t Slot, bool WithInputs>
Observer on_start(const at::RecordFunction& fn) {
  // An exception that left this function would end in the user's op.
  try {
    EncodedInputs inputs;
    if constexpr (WithInputs) {
      if (core->slot_active(Slot) != 0) inputs = inputs_of(fn);
    }
    const torchprof_op_start op{
        .key = &fn,
        .name = fn.name(),
        .overload = fn.overload_name(),
        .sequence = fn.seqNr(),
        .torch_thread = fn.threadId(),
        .forward_thread = fn.forwardThreadId(),
        .scope = static_cast<std::uint8_t>(fn.scope()),
        .is_user = fn.scope() == at::RecordScope::USER_SCOPE,
        .is_async = fn.isAsync(),
        .inputs_cut = inputs.cut,
        .inputs = inputs.data,
        .inputs_bytes = inputs.size_bytes,
    };
    core->op_start(Slot, &op);
  } catch (...) {
    return nullptr;  // the core counts the end that follows as unmatched
  }
  return nullptr;
}

template <std::uint32_t Slot>
void on_end(const at::RecordFunction& fn, at::ObserverContext*) {
  core->op_end(Slot, &fn, fn.isAsync());
}

template <std::uint32_t Slot>
at::RecordFunctionCallback callback(bool with_inputs) {
  return at::RecordFunctionCallback(with_inputs ? on_start<Slot, true> : on_start<Slot, false>, on_end<Slot>)
      .needsInputs(with_inputs);
}

template <std::size_t... Slots>
at::RecordFunctionCallback callback_of(std::uint32_t slot, bool with_inputs, std::index_sequence<Slots...>) {
  using Maker = at::RecordFunctionCallback (*)(bool);
  constexpr std::array<Maker, sizeof...(Slots)> makers{callback<Slots>...};
  return makers[slot](with_inputs);
}

struct Registration {
  at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
  std::uint32_t flags = 0;
};

// Guards `registrations`; never taken by a callback.
std::mutex registration_mutex;
std::array<Registration, kSlots> registrations;

void remove(Registration& registration) {
  if (registration.handle == at::INVALID_CALLBACK_HANDLE) return;
  at::removeCallback(std::exchange(registration, {}).handle);
}

int enable(std::uint32_t slot, std::uint32_t flags) {
  if (slot >= kSlots) return kNoSuchSlot;
  try {
    const std::lock_guard lock(registration_mutex);
    Registration& registration = registrations[slot];
    if (registration.handle != at::INVALID_CALLBACK_HANDLE && registration.flags == flags) return kOk;
    remove(registration);
    const bool with_inputs = (flags & TORCHPROF_HOOK_INPUTS) != 0;
    registration = {
        .handle = at::addGlobalCallback(callback_of(slot, with_inputs, std::make_index_sequence<kSlots>())),
        .flags = flags,
    };
    return kOk;
  } catch (...) {
    return kTorchRefused;
  }
}

int disable(std::uint32_t slot) {
  if (slot >= kSlots) return kNoSuchSlot;
  try {
    const std::lock_guard lock(registration_mutex);
    remove(registrations[slot]);
    return kOk;
  } catch (...) {
    return kTorchRefused;
  }
}

constexpr torchprof_bridge_table kTable{
    .abi_version = TORCHPROF_BRIDGE_ABI_VERSION,
    .table_bytes = sizeof(torchprof_bridge_table),
    .torch_version = TORCHPROF_TORCH_VERSION,
    .enable = enable,
    .disable = disable,
};

}  // namespace
}  // namespace torchprof::bridge

// Returns the bridge's functions, or NULL for a core that speaks another version of the contract.
extern "C" __attribute__((visibility("default"))) const torchprof_bridge_table* torchprof_bridge_init(
    const torchprof_core_table* core_table) {
  if (core_table == nullptr || core_table->abi_version != TORCHPROF_BRIDGE_ABI_VERSION ||
      core_table->table_bytes < sizeof(torchprof_core_table)) {
    return nullptr;
  }
  torchprof::bridge::core = core_table;
  return &torchprof::bridge::kTable;
}
