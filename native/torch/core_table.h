// The functions of the core, for all of the bridge.
#pragma once

#include "torch/bridge_abi.h"

namespace torchprof::bridge {

// Written once, before the first callback is registered.
extern const torchprof_core_table* core;

}  // namespace torchprof::bridge
