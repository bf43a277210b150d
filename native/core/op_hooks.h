// The hot path: what runs at the start and at the end of every operator.
#pragma once

#include <cstdint>

#include "core/active_recording.h"
#include "torch/bridge_abi.h"

namespace torchprof {

// The functions a torch bridge calls.
const torchprof_core_table& core_table() noexcept;

// The calling thread's ordinal in a recording, its track made if need be; 0 when it has none.
std::uint32_t current_thread_ordinal(std::uint32_t slot, ActiveRecording& recording) noexcept;

}  // namespace torchprof
