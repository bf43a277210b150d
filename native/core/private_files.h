// Descriptors that the child of a fork must not keep: it closes them. Opening and closing hold forks off.
#pragma once

#include <errno.h>

#include <mutex>

namespace torchprof {

namespace private_files_detail {
// No fork happens while it is held.
[[nodiscard]] std::unique_lock<std::mutex> hold_forks() noexcept;
[[nodiscard]] bool make_room() noexcept;
void add(int descriptor) noexcept;
void forget(int descriptor) noexcept;
}  // namespace private_files_detail

// What `open` returns: a descriptor, or an errno value negated.
template <typename Open>
int open_private(Open open) noexcept {
  const auto lock = private_files_detail::hold_forks();
  if (!private_files_detail::make_room()) return -ENOMEM;
  const int descriptor = open();
  if (descriptor >= 0) private_files_detail::add(descriptor);
  return descriptor;
}

template <typename Close>
void close_private(int descriptor, Close close) noexcept {
  const auto lock = private_files_detail::hold_forks();
  private_files_detail::forget(descriptor);
  close(descriptor);
}

}  // namespace torchprof
