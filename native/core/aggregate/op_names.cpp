#include "core/aggregate/op_names.h"

#include <algorithm>
#include <bit>
#include <new>

#include "core/string_table.h"

namespace torchprof {
namespace {

constexpr std::string_view kOverflowName = "(name table full)";

Phase begun_by(std::string_view name, bool is_user) noexcept {
  if (is_user) {
    return name.starts_with("Optimizer.step#") || name.starts_with("Optimizer.zero_grad#") ? Phase::kOptimizer
                                                                                           : Phase::kOther;
  }
  // Around the function of a node, and the sum of the gradients that flow into it.
  return name.starts_with("autograd::engine::evaluate_function: ") ? Phase::kBackward : Phase::kOther;
}

std::uint64_t hash_of(std::string_view name, bool is_user) noexcept {
  return Name{.name = name, .overload = is_user ? "user" : ""}.hash();
}

}  // namespace

OpNames::OpNames(std::size_t max_names)
    : max_names_(max_names),
      bucket_mask_(std::bit_ceil(2 * (max_names + 1)) - 1),
      by_hash_(std::make_unique<std::atomic<const OpName*>[]>(bucket_mask_ + 1)),
      by_id_(std::make_unique<std::atomic<const OpName*>[]>(max_names + kOverflowNames)) {
  for (const bool is_user : {false, true}) {
    // Not to be found by its text: a program may use the same.
    if (append(kOverflowName, is_user, 0) == nullptr) {
      throw std::bad_alloc();
    }
  }
}

OpNames::~OpNames() {
  for (std::size_t id = 0; id < size(); ++id) {
    ::operator delete(const_cast<OpName*>(&(*this)[id]));
  }
}

const OpName* OpNames::lookup(const char* name, bool is_user, std::uint64_t hash) const noexcept {
  for (std::size_t i = hash & bucket_mask_;; i = (i + 1) & bucket_mask_) {
    const OpName* found = by_hash_[i].load(std::memory_order_acquire);
    if (found == nullptr || (found->hash == hash && found->is(name, is_user))) {
      return found;
    }
  }
}

const OpName& OpNames::find(const char* name, bool is_user) noexcept {
  const std::size_t size_bytes = ::strnlen(name, kMaxOpNameBytes);
  const std::uint64_t hash = hash_of({name, size_bytes}, is_user);
  if (const OpName* found = lookup(name, is_user, hash); found != nullptr) {
    return *found;
  }
  if (is_full_[is_user ? 1 : 0].load(std::memory_order_relaxed)) {
    return (*this)[is_user ? 1 : 0];
  }
  return add(name, size_bytes, is_user, hash);
}

const OpName& OpNames::add(const char* name, std::size_t size_bytes, bool is_user,
                           std::uint64_t hash) noexcept {
  const std::lock_guard lock(mutex_);
  if (const OpName* found = lookup(name, is_user, hash); found != nullptr) {
    return *found;
  }
  const std::size_t names = size() - kOverflowNames;
  if (names == max_names_ || (is_user && user_names_ == max_names_ / 2)) {
    is_full_[is_user ? 1 : 0].store(true, std::memory_order_relaxed);
    return (*this)[is_user ? 1 : 0];
  }
  const OpName* added = append({name, size_bytes}, is_user, hash);
  if (added == nullptr) {
    return (*this)[is_user ? 1 : 0];
  }
  user_names_ += is_user ? 1 : 0;
  std::size_t i = hash & bucket_mask_;
  while (by_hash_[i].load(std::memory_order_relaxed) != nullptr) {
    i = (i + 1) & bucket_mask_;
  }
  by_hash_[i].store(added, std::memory_order_release);
  return *added;
}

const OpName* OpNames::append(std::string_view name, bool is_user, std::uint64_t hash) noexcept {
  void* room = ::operator new(sizeof(OpName) + name.size() + 1, std::nothrow);
  if (room == nullptr) {
    return nullptr;
  }
  const std::size_t id = size();
  const auto* entry = new (room) OpName{.hash = hash,
                                        .id = static_cast<std::uint32_t>(id),
                                        .is_user = is_user,
                                        .begins = begun_by(name, is_user)};
  char* text = static_cast<char*>(room) + sizeof(OpName);
  *std::copy(name.begin(), name.end(), text) = '\0';
  by_id_[id].store(entry, std::memory_order_relaxed);
  size_.store(id + 1, std::memory_order_release);
  return entry;
}

}  // namespace torchprof
