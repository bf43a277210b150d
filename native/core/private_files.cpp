#include "core/private_files.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <new>
#include <vector>

namespace torchprof::private_files_detail {
namespace {

struct Files {
  Files() noexcept;
  std::mutex mutex;
  std::vector<int> descriptors;
};

// Never destroyed: captures may outlive static destructors.
Files& files() noexcept {
  alignas(Files) static std::array<std::byte, sizeof(Files)> storage;
  static Files* const files = new (storage.data()) Files;
  return *files;
}

void before_fork() noexcept { files().mutex.lock(); }

void after_fork_in_parent() noexcept { files().mutex.unlock(); }

void after_fork_in_child() noexcept {
  for (const int descriptor : files().descriptors) ::close(descriptor);
  files().descriptors.clear();
  files().mutex.unlock();
}

// Without room for the handlers, which the C library has for as long as it has any memory, a child keeps the
// descriptors until it ends.
Files::Files() noexcept {
  static_cast<void>(::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child));
}

}  // namespace

std::unique_lock<std::mutex> hold_forks() noexcept { return std::unique_lock(files().mutex); }

bool make_room() noexcept {
  try {
    std::vector<int>& descriptors = files().descriptors;
    if (descriptors.size() == descriptors.capacity()) descriptors.reserve(2 * descriptors.size() + 1);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void add(int descriptor) noexcept { files().descriptors.push_back(descriptor); }

void forget(int descriptor) noexcept { std::erase(files().descriptors, descriptor); }

}  // namespace torchprof::private_files_detail
