// The torch bridge: RecordFunction callbacks that hand every op to the core. This folder is the only code
// that sees ATen, compiled for one exact torch, because at::RecordFunction has no stable ABI.
//
// Callbacks are templates on the capture slot: each capture registers a pair of its own, so torch runs a
// slot's start and end for the same ops, however captures overlap.
#include <ATen/record_function.h>

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "torch/bridge_abi.h"
#include "torch/core_table.h"
#include "torch/counting.h"
#include "torch/device_events.h"
#include "torch/device_memory.h"
#include "torch/inputs.h"
#include "torch/memory.h"
#include "torch/op_cost.h"
#include "torch/switch_lock.h"

#ifndef TORCHPROF_TORCH_VERSION
#error "TORCHPROF_TORCH_VERSION must name the torch this bridge is compiled for"
#endif

namespace torchprof::bridge {

const torchprof_core_table* core = nullptr;

namespace {

using Observer = std::unique_ptr<at::ObserverContext>;

constexpr std::size_t kSlots = TORCHPROF_CAPTURE_SLOTS;

// An op whose inputs torch does not give is recorded without them.
EncodedInputs inputs_of(const at::RecordFunction& fn, bool with_identities) noexcept {
  try {
    return encode_inputs(fn.inputs(), with_identities);
  } catch (...) {
    return {.data = nullptr, .size_bytes = 0, .cut = true};
  }
}

enum class Inputs { kNone, kRecorded, kIdentified };

template <std::uint32_t Slot, Inputs Recorded>
Observer on_start(const at::RecordFunction& fn) {
  // An exception that left this function would end in the user's op.
  try {
    EncodedInputs inputs;
    if constexpr (Recorded != Inputs::kNone) {
      if (core->slot_active(Slot) != 0) inputs = inputs_of(fn, Recorded == Inputs::kIdentified);
    }
    // Not whether it is asynchronous: that is said, if at all, after its start callbacks.
    const torchprof_op_start op{
        .key = &fn,
        .name = fn.name(),
        .overload = fn.overload_name(),
        .sequence = fn.seqNr(),
        .torch_thread = fn.threadId(),
        .forward_thread = fn.forwardThreadId(),
        .scope = static_cast<std::uint8_t>(fn.scope()),
        .is_user = fn.scope() == at::RecordScope::USER_SCOPE,
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
at::RecordFunctionCallback callback(std::uint32_t flags) {
  if ((flags & TORCHPROF_HOOK_INPUTS) == 0) {
    return at::RecordFunctionCallback(on_start<Slot, Inputs::kNone>, on_end<Slot>);
  }
  const bool identified = (flags & TORCHPROF_HOOK_IDENTITIES) != 0;
  return at::RecordFunctionCallback(
             identified ? on_start<Slot, Inputs::kIdentified> : on_start<Slot, Inputs::kRecorded>,
             on_end<Slot>)
      .needsInputs(true);
}

template <std::size_t... Slots>
at::RecordFunctionCallback callback_of(std::uint32_t slot, std::uint32_t flags,
                                       std::index_sequence<Slots...>) {
  using Maker = at::RecordFunctionCallback (*)(std::uint32_t);
  constexpr std::array<Maker, sizeof...(Slots)> makers{callback<Slots>...};
  return makers[slot](flags);
}

struct Registration {
  at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
  std::uint32_t flags = 0;
};

std::array<Registration, kSlots> registrations;

void remove(Registration& registration) {
  if (registration.handle == at::INVALID_CALLBACK_HANDLE) return;
  at::removeCallback(std::exchange(registration, {}).handle);
}

int enable(std::uint32_t slot, std::uint32_t flags) {
  if (slot >= kSlots) return TORCHPROF_NO_SUCH_SLOT;
  try {
    const std::unique_lock lock = lock_switches();
    Registration& registration = registrations[slot];
    if (registration.handle != at::INVALID_CALLBACK_HANDLE && registration.flags == flags)
      return TORCHPROF_OK;
    remove(registration);
    registration = {
        .handle = at::addGlobalCallback(callback_of(slot, flags, std::make_index_sequence<kSlots>())),
        .flags = flags,
    };
    return TORCHPROF_OK;
  } catch (...) {
    return TORCHPROF_TORCH_REFUSED;
  }
}

int disable(std::uint32_t slot) {
  if (slot >= kSlots) return TORCHPROF_NO_SUCH_SLOT;
  try {
    const std::unique_lock lock = lock_switches();
    remove(registrations[slot]);
    return TORCHPROF_OK;
  } catch (...) {
    return TORCHPROF_TORCH_REFUSED;
  }
}

constexpr torchprof_bridge_table kTable{
    .abi_version = TORCHPROF_BRIDGE_ABI_VERSION,
    .table_bytes = sizeof(torchprof_bridge_table),
    .torch_version = TORCHPROF_TORCH_VERSION,
    .enable = enable,
    .disable = disable,
    .enable_memory = enable_memory,
    .enable_device_memory = enable_device_memory,
    .disable_memory = disable_memory,
    .enable_counting = enable_counting,
    .disable_counting = disable_counting,
    .time_ops = time_ops,
    .device_events = device_events,
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
