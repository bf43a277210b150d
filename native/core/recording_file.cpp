#include "core/recording_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

namespace torchprof {
namespace {

// File systems whose allocated blocks can always be written (copy-on-write ones need new blocks).
constexpr std::uint32_t kExtMagic = 0xEF53;
constexpr std::uint32_t kXfsMagic = 0x58465342;
constexpr std::uint32_t kTmpfsMagic = 0x01021994;
// The root of most containers: hands fallocate and mmap on to the file system below, an ext or xfs there.
constexpr std::uint32_t kOverlayMagic = 0x794C7630;

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

int create_new(const std::string& path) {
  // O_EXCL also refuses a symbolic link; more than one try only when somebody else creates the file between.
  constexpr int kTries = 3;
  for (int i = 0; i < kTries; ++i) {
    const int descriptor =
        ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (descriptor >= 0) {
      return descriptor;
    }
    if (errno != EEXIST) {
      fail(errno, "cannot create a recording at " + path);
    }
    struct stat status {};
    if (::lstat(path.c_str(), &status) == 0) {
      if (!S_ISREG(status.st_mode)) {
        fail(EEXIST, "a recording replaces only a regular file; " + path + " is none");
      }
      if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
        fail(errno, "cannot replace " + path);
      }
    }
  }
  fail(EEXIST, "somebody keeps creating the file of a recording at " + path);
}

}  // namespace

RecordingFile::RecordingFile(std::string path) : path_(std::move(path)), descriptor_(create_new(path_)) {}

RecordingFile::~RecordingFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    ::unlink(path_.c_str());
  }
}

std::string RecordingFile::unsafe_reason() const {
  struct statfs status {};
  if (::fstatfs(descriptor_, &status) != 0) {
    return "its file system is unknown";
  }
  const auto magic = static_cast<std::uint32_t>(status.f_type);
  if (magic == kExtMagic || magic == kXfsMagic || magic == kTmpfsMagic || magic == kOverlayMagic) {
    return {};
  }
  char text[128];
  static_cast<void>(std::snprintf(
      text, sizeof(text), "file system type 0x%x may lack space for pages it promised; use ext, xfs or tmpfs",
      magic));
  return text;
}

int RecordingFile::release() noexcept { return std::exchange(descriptor_, -1); }

int reserve_disk(int descriptor, std::uint64_t begin, std::uint64_t end) noexcept {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && end > limit.rlim_cur) {
    return EFBIG;
  }
  // Not posix_fallocate: where the file system cannot do it, that one writes zeros instead.
  while (::fallocate(descriptor, 0, static_cast<off_t>(begin), static_cast<off_t>(end - begin)) != 0) {
    if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace torchprof
