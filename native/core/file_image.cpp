#include "core/file_image.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "core/problems.h"

namespace torchprof {
namespace {

class File {
 public:
  explicit File(const std::string& path)
      // Without O_NONBLOCK opening a FIFO would wait for a writer.
      : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (descriptor_ < 0) throw_errno("cannot open");
  }
  ~File() { ::close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Throws unless it is a file with an end.
  [[nodiscard]] std::uint64_t size_bytes() const {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) throw_errno("cannot read");
    if (!S_ISREG(status.st_mode))
      throw std::runtime_error(path_ + " is not a regular file, so it is no recording");
    return static_cast<std::uint64_t>(status.st_size);
  }

  // Returns the bytes read: fewer than asked for where the file ends.
  std::uint64_t read(std::byte* target, std::uint64_t count, std::uint64_t offset) const {
    std::uint64_t done = 0;
    while (done < count) {
      const ssize_t got =
          ::pread(descriptor_, target + done, count - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw_errno("cannot read");
      if (got == 0) break;
      done += static_cast<std::uint64_t>(got);
    }
    return done;
  }

 private:
  [[noreturn]] void throw_errno(const char* what) const {
    throw std::system_error(errno, std::generic_category(), std::string(what) + " " + path_);
  }

  std::string path_;
  int descriptor_;
};

FileImage copy_used_bytes(const File& file, const std::string& path) {
  const std::uint64_t size_bytes = file.size_bytes();
  std::vector<std::uint64_t> header(kGranuleBytes / sizeof(std::uint64_t));
  const std::span<std::byte> header_bytes = std::as_writable_bytes(std::span(header));
  require_recording_header(header_bytes.first(file.read(header_bytes.data(), header_bytes.size(), 0)), path);

  const std::uint64_t used_bytes = header_of(header_bytes).used_bytes.load();
  const std::uint64_t wanted = std::clamp(used_bytes, kGranuleBytes, std::max(size_bytes, kGranuleBytes));
  // Words rather than bytes, for their alignment.
  const auto words = std::make_shared_for_overwrite<std::uint64_t[]>(wanted / sizeof(std::uint64_t) + 1);
  auto* const bytes = reinterpret_cast<std::byte*>(words.get());
  std::memcpy(bytes, header.data(), kGranuleBytes);
  const std::uint64_t rest = file.read(bytes + kGranuleBytes, wanted - kGranuleBytes, kGranuleBytes);
  return {.owner = words, .bytes = {bytes, kGranuleBytes + rest}, .record_chunks = {}};
}

}  // namespace

void require_recording_header(std::span<const std::byte> file, const std::string& described) {
  const auto refuse = [&described](const std::string& why) {
    throw std::runtime_error(described + " " + why);
  };
  if (file.size() < sizeof(kFileMagic) || std::memcmp(file.data(), kFileMagic, sizeof(kFileMagic)) != 0) {
    refuse("is not a recording: it does not start as one");
  }
  if (file.size() < kGranuleBytes) refuse("is cut off within its header: nothing of it can be read");
  const FileHeader& header = header_of(file);
  if (header.endian != kEndianMark) refuse("was written on a machine of another byte order: read it there");
  if (header.version != kFormatVersion) {
    refuse("has format version " + std::to_string(header.version) + ", this version reads " +
           std::to_string(kFormatVersion) + ": upgrade otel-torchprof");
  }
  if (header.header_bytes != kGranuleBytes || header.granule_bytes != kGranuleBytes) {
    refuse("has a damaged header: nothing of it can be read");
  }
}

FileImage read_file(const std::string& path) {
  const File file(path);
  FileImage image = copy_used_bytes(file, path);
  ProblemCounts counted_by_the_reader;
  image.record_chunks = index_chunks(image.bytes, counted_by_the_reader);
  const auto state = static_cast<RecordingState>(header_of(image.bytes).state.load());
  if (state == RecordingState::kStopped) return image;
  // A process may be appending: a chunk of strings copied before a chunk of events can lack names of those.
  // What an event refers to is committed before the event is, so a second copy has it all.
  FileImage later = copy_used_bytes(file, path);
  if (later.bytes.size() < image.bytes.size()) return image;  // truncated meanwhile
  later.record_chunks = std::move(image.record_chunks);
  return later;
}

}  // namespace torchprof
