// The hot path: what runs at the start and at the end of every operator, and of other events.
#pragma once

#include <cstdint>

#include "core/active_recording.h"
#include "core/thread_buffer.h"
#include "torch/bridge_abi.h"

namespace torchprof {

// The functions a torch bridge calls.
const torchprof_core_table& core_table() noexcept;

// An event that a source of ours reports, in one order with the ops of its thread. As safe as the functions
// of the table, and an end is matched in the same way: by its key, which no other open event may have.
void begin_event(std::uint32_t slot, const EventStart& event) noexcept;
void end_event(std::uint32_t slot, const void* key) noexcept;
// An exception of this type is what ends the event, which `end_event` does then. `error_type` is
// NUL-terminated and needs to live only for the call. Not kept of an event that ends on another thread than
// it began on.
void fail_event(std::uint32_t slot, const void* key, const char* error_type) noexcept;

// The calling thread's ordinal in a recording, its track made if need be; 0 when it has none.
std::uint32_t current_thread_ordinal(std::uint32_t slot, ActiveRecording& recording) noexcept;

}  // namespace torchprof
