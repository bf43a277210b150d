// The threads of this process, as the kernel lists them.
#pragma once

#include <dirent.h>

#include <array>
#include <cstdint>
#include <vector>

namespace torchprof {

class TaskList {
 public:
  TaskList() = default;
  ~TaskList() { close(); }
  TaskList(const TaskList&) = delete;
  TaskList& operator=(const TaskList&) = delete;

  // Returns 0 or an errno value.
  int open() noexcept;
  void close() noexcept;

  // Ids in ascending order. False when the list cannot be read, or holds more than there is memory for.
  bool read(std::vector<std::uint32_t>& os_thread_ids) noexcept;
  using Name = std::array<char, 16>;
  // Empty for a thread that has ended.
  [[nodiscard]] Name name_of(std::uint32_t os_thread_id) const noexcept;

 private:
  DIR* directory_ = nullptr;
  int descriptor_ = -1;
};

}  // namespace torchprof
