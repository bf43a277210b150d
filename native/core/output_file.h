// A file that appears under its name only when it is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace torchprof {

class OutputFile {
 public:
  // Creates a temporary file, mode 0600, in the directory of `path`. Throws std::system_error.
  explicit OutputFile(std::string path);
  // Removes the temporary file unless `publish` succeeded.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void append(std::span<const std::byte> bytes);
  // Overwrites what was appended before.
  void rewrite(std::uint64_t offset, std::span<const std::byte> bytes);
  [[nodiscard]] std::uint64_t size_bytes() const noexcept { return size_bytes_; }
  // Gives the file its name, replacing what had it.
  void publish();

 private:
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  [[noreturn]] void throw_errno() const;

  std::string path_;
  std::string temporary_path_;
  int descriptor_ = -1;
  std::uint64_t size_bytes_ = 0;
};

}  // namespace torchprof
