#include "core/task_list.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <new>

#include "core/private_files.h"

namespace torchprof {

int TaskList::open() noexcept {
  const int descriptor = open_private([]() noexcept {
    const int opened = ::open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return opened < 0 ? -errno : opened;
  });
  if (descriptor < 0) return -descriptor;
  directory_ = ::fdopendir(descriptor);
  if (directory_ == nullptr) {
    const int error = errno;
    close_private(descriptor, ::close);
    return error;
  }
  descriptor_ = descriptor;
  return 0;
}

void TaskList::close() noexcept {
  if (directory_ == nullptr) return;
  close_private(descriptor_, [this](int) noexcept { ::closedir(directory_); });
  directory_ = nullptr;
  descriptor_ = -1;
}

bool TaskList::read(std::vector<std::uint32_t>& os_thread_ids) noexcept {
  os_thread_ids.clear();
  if (directory_ == nullptr) return false;
  ::rewinddir(directory_);
  try {
    while (const dirent* entry = ::readdir(directory_)) {
      const char* const name = static_cast<const char*>(entry->d_name);
      std::uint32_t id = 0;
      if (std::from_chars(name, name + std::strlen(name), id).ec == std::errc()) os_thread_ids.push_back(id);
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  std::sort(os_thread_ids.begin(), os_thread_ids.end());
  return true;
}

TaskList::Name TaskList::name_of(std::uint32_t os_thread_id) const noexcept {
  std::array<char, 32> path{};
  static_cast<void>(std::snprintf(path.data(), path.size(), "%u/comm", os_thread_id));
  Name name{};
  const int file =
      open_private([&]() noexcept { return ::openat(descriptor_, path.data(), O_RDONLY | O_CLOEXEC); });
  if (file < 0) return name;
  const ssize_t size_bytes = ::read(file, name.data(), name.size() - 1);
  close_private(file, ::close);
  // It ends in a line break.
  if (size_bytes > 0) name[static_cast<std::size_t>(size_bytes) - 1] = '\0';
  return name;
}

}  // namespace torchprof
