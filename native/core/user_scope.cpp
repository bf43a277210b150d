#include "core/user_scope.h"

#include "core/aggregate/count_hooks.h"
#include "core/op_hooks.h"
#include "core/process_identity.h"
#include "core/thread_state.h"

namespace torchprof {
namespace {

constexpr std::uint8_t kUserScope = 7;  // at::RecordScope::USER_SCOPE
constexpr std::uint32_t kCountingBit = 1U << kCountingUser;

}  // namespace

constinit std::atomic<std::uint32_t> scope_listeners{0};

void listen_to_scopes(std::uint32_t user, bool wanted) noexcept {
  const std::uint32_t bit = 1U << user;
  if (wanted) {
    scope_listeners.fetch_or(bit, std::memory_order_relaxed);
  } else {
    scope_listeners.fetch_and(~bit, std::memory_order_relaxed);
  }
}

void forget_scope_listeners() noexcept { scope_listeners.store(0, std::memory_order_relaxed); }

void UserScope::report_begin(const char* name) noexcept {
  fork_generation_ = fork_generation();
  if ((heard_by_ & kCountingBit) != 0) {
    count_start(this, name, TORCHPROF_COUNT_USER);
  }
  torchprof_op_start op{};
  op.key = this;
  op.name = name;
  op.overload = "";
  op.sequence = -1;
  op.scope = kUserScope;
  op.is_user = 1;
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    if ((heard_by_ & (1U << slot)) != 0) {
      core_table().op_start(slot, &op);
    }
  }
}

void UserScope::report_failure(const char* error_type) noexcept {
  if (fork_generation_ != fork_generation()) {
    return;
  }
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    if ((heard_by_ & (1U << slot)) != 0) {
      fail_event(slot, this, error_type);
    }
  }
}

void UserScope::report_end() noexcept {
  // Whoever heard the beginning stayed in the parent of a fork.
  if (fork_generation_ == fork_generation()) {
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      if ((heard_by_ & (1U << slot)) != 0) {
        core_table().op_end(slot, this, 0);
      }
    }
    if ((heard_by_ & kCountingBit) != 0) {
      count_end(this, 0);
    }
  }
  heard_by_ = 0;
}

}  // namespace torchprof
