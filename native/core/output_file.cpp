#include "core/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>  // rename
#include <system_error>
#include <utility>

namespace torchprof {
namespace {

constexpr int kMaxNameTries = 100;

// Short, because the name of the file itself may be as long as a name can be.
std::string temporary_path_beside(const std::string& path) {
  static std::atomic<std::uint64_t> counter{0};
  const std::size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  return directory + ".torchprof-" + std::to_string(::getpid()) + "-" + std::to_string(counter++) + ".tmp";
}

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  for (int attempt = 0; attempt < kMaxNameTries; ++attempt) {
    temporary_path_ = temporary_path_beside(path_);
    descriptor_ = ::open(temporary_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (descriptor_ >= 0) return;
    if (errno != EEXIST) break;
  }
  throw_errno();
}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_path_.c_str());
}

void OutputFile::append(std::span<const std::byte> bytes) {
  write_at(size_bytes_, bytes);
  size_bytes_ += bytes.size();
}

void OutputFile::rewrite(std::uint64_t offset, std::span<const std::byte> bytes) { write_at(offset, bytes); }

void OutputFile::publish() {
  // Some file systems report a full disk no earlier than here.
  const bool is_written = ::close(std::exchange(descriptor_, -1)) == 0;
  if (is_written && ::rename(temporary_path_.c_str(), path_.c_str()) == 0) return;
  const int error = errno;
  ::unlink(temporary_path_.c_str());
  errno = error;
  throw_errno();
}

void OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_errno();
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
}

void OutputFile::throw_errno() const {
  throw std::system_error(errno, std::generic_category(), "cannot write " + path_);
}

}  // namespace torchprof
