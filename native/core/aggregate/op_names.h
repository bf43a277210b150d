// The names of everything that is counted, each once for all threads. Finding a known name takes no lock, so
// that a program with more names than a thread remembers is not held up; only a name new to the process
// takes one. The number of names is bounded: what comes later shares one entry.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>

#include "core/aggregate/phase.h"

namespace torchprof {

// Longer names are cut: they are attributes of metrics.
inline constexpr std::size_t kMaxOpNameBytes = 255;

// Followed by the NUL-terminated text. Never changes.
struct OpName {
  std::uint64_t hash;
  std::uint32_t id;  // dense, from 0
  bool is_user;      // of a user scope: not the operator of the same name
  Phase begins;      // the phase of everything inside; kOther = none of its own

  [[nodiscard]] const char* text() const noexcept { return reinterpret_cast<const char*>(this + 1); }
  // A cut name stands for all that begin like it.
  [[nodiscard]] bool is(const char* name, bool user) const noexcept {
    return is_user == user && std::strncmp(text(), name, kMaxOpNameBytes) == 0;
  }
};

class OpNames {
 public:
  // At most `max_names` different names, user scopes at most half of them: a program that numbers its scopes
  // must not push operators out. Throws std::bad_alloc.
  explicit OpNames(std::size_t max_names);
  ~OpNames();
  OpNames(const OpNames&) = delete;
  OpNames& operator=(const OpNames&) = delete;

  // From any thread. The entry of a name, added when it is new; the overflow entry of its kind when there is
  // no room.
  const OpName& find(const char* name, bool is_user) noexcept;
  [[nodiscard]] static bool is_overflow(const OpName& name) noexcept { return name.id < kOverflowNames; }

  // Ids that have been given out are below; each has its entry.
  [[nodiscard]] std::size_t size() const noexcept { return size_.load(std::memory_order_acquire); }
  [[nodiscard]] const OpName& operator[](std::size_t id) const noexcept {
    return *by_id_[id].load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::size_t max_size() const noexcept { return max_names_ + kOverflowNames; }

 private:
  static constexpr std::size_t kOverflowNames = 2;  // one a kind
  using Entries = std::unique_ptr<std::atomic<const OpName*>[]>;

  [[nodiscard]] const OpName* lookup(const char* name, bool is_user, std::uint64_t hash) const noexcept;
  const OpName& add(const char* name, std::size_t size_bytes, bool is_user, std::uint64_t hash) noexcept;
  const OpName* append(std::string_view name, bool is_user, std::uint64_t hash) noexcept;

  const std::size_t max_names_;
  const std::size_t bucket_mask_;
  const Entries by_hash_;  // linear probing, at most half full
  const Entries by_id_;
  std::atomic<std::size_t> size_{0};

  std::mutex mutex_;  // of additions
  std::size_t user_names_ = 0;
  std::array<std::atomic<bool>, 2> is_full_{};  // for operators, for user scopes
};

}  // namespace torchprof
