// A scope that the program marks with our own `span`: to all that record and count it is the event that
// torch's record_function makes, without the way through torch.
#pragma once

#include <atomic>
#include <cstdint>

namespace torchprof {

// Who hears of scopes: bit 1 << slot of each capture, and 1 << kCountingUser. One word, so that a scope that
// nobody hears of costs one look.
extern constinit std::atomic<std::uint32_t> scope_listeners;

// Whether a slot, or kCountingUser, hears of scopes that begin from now on.
void listen_to_scopes(std::uint32_t user, bool wanted) noexcept;
// In the child of a fork nobody does.
void forget_scope_listeners() noexcept;

// As safe as the hooks of ops, which it goes through. Its address is the key of its event: it must end before
// it is moved or freed. It may end on another thread than it began on.
class UserScope {
 public:
  // `name` is NUL-terminated and needs to live only for the call.
  void begin(const char* name) noexcept {
    heard_by_ = scope_listeners.load(std::memory_order_relaxed);
    if (heard_by_ != 0) {
      report_begin(name);
    }
  }
  // What ends it is an exception of this type, NUL-terminated. Before `end`.
  void fail(const char* error_type) noexcept {
    if (heard_by_ != 0) {
      report_failure(error_type);
    }
  }
  void end() noexcept {
    if (heard_by_ != 0) {
      report_end();
    }
  }

 private:
  void report_begin(const char* name) noexcept;
  void report_failure(const char* error_type) noexcept;
  void report_end() noexcept;

  std::uint32_t heard_by_ = 0;
  std::uint64_t fork_generation_ = 0;
};

}  // namespace torchprof
