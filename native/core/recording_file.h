// The file of a recording that is being written: created safely, and only where its space can be reserved.
#pragma once

#include <cstdint>
#include <string>

namespace torchprof {

// A new, empty file with mode 0600. A regular file that stood at `path` is unlinked first, never written
// into: another capture or a reader may have it mapped. Symbolic links, devices and pipes are refused.
class RecordingFile {
 public:
  // Throws std::system_error.
  explicit RecordingFile(std::string path);
  // Closes and removes the file unless `release` was called.
  ~RecordingFile();
  RecordingFile(const RecordingFile&) = delete;
  RecordingFile& operator=(const RecordingFile&) = delete;

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  // Why a mapping of this file could fail on a full disk, by its file system; empty when it cannot.
  [[nodiscard]] std::string unsafe_reason() const;
  // Hands the descriptor over and keeps the file.
  int release() noexcept;

 private:
  std::string path_;
  int descriptor_ = -1;
};

// Allocates disk space for [begin, end) of a file and extends it. Returns 0 or an errno value. Respects
// RLIMIT_FSIZE without the signal that passing it would raise.
int reserve_disk(int descriptor, std::uint64_t begin, std::uint64_t end) noexcept;

}  // namespace torchprof
