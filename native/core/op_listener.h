// Someone who is told of ops as they happen, by way of a capture slot that records nothing meanwhile.
#pragma once

#include <cstdint>

#include "torch/bridge_abi.h"

namespace torchprof {

// Called on the threads of the ops, outside of the recorder's own bookkeeping. Never freed: calls may be
// under way on other threads when it is told nothing more.
class OpListener {
 public:
  OpListener() = default;
  virtual ~OpListener() = default;
  OpListener(const OpListener&) = delete;
  OpListener& operator=(const OpListener&) = delete;

  virtual void started(const torchprof_op_start& op) noexcept = 0;
  virtual void ended(const void* key) noexcept = 0;
};

}  // namespace torchprof
