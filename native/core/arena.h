// The memory of one recording: one mapping of its whole byte cap, handed out in chunks from the front.
//
//   0          used_          populated_        allocated_                      cap_bytes
//   +----------+--------------+-----------------+-------------------------------+
//   | chunks   | pages in     | may be touched  | address space only            |
//   +----------+--------------+-----------------+-------------------------------+
//
// What is allocated was taken from the memory budget of the process. With a path the mapping is the file:
// disk space too is allocated before any byte of it is touched, because touching a page the disk has no room
// for is a SIGBUS; where a file system does not keep that promise the recording goes to anonymous memory and
// `fallback_reason` says why.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/layout.h"

namespace torchprof {

// Payloads are referred to by a 32-bit count of kPayloadAlignBytes.
inline constexpr std::uint64_t kMaxCapBytes = (std::uint64_t{1} << 32U) * kPayloadAlignBytes;
inline constexpr std::uint64_t kMinCapBytes = 16 * kGranuleBytes;
// The largest thing that is written in one piece.
inline constexpr std::uint64_t kMaxRecordBytes = kMaxChunkBytes - sizeof(ChunkHeader);

struct ChunkResult {
  ChunkHeader* chunk = nullptr;
  DropReason failure = DropReason::kByteCap;  // meaningful without a chunk
};

class Arena {
 public:
  // An empty path means anonymous memory. A regular file at `path` is replaced, not overwritten: whoever
  // has it open keeps it. Throws std::system_error naming what is wrong.
  Arena(const std::string& path, std::uint64_t cap_bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // A chunk of `size_bytes`, or a smaller one of at least `min_bytes` when no more is left; both are
  // multiples of kGranuleBytes. A system call only when the populating thread fell behind.
  ChunkResult allocate(ChunkKind kind, std::uint16_t record_bytes, std::uint32_t thread,
                       std::uint32_t sequence, std::uint64_t size_bytes, std::uint64_t min_bytes) noexcept;
  // Shortens a chunk that gets no more records to the granules it uses and keeps the rest for others.
  void release_tail(ChunkHeader& chunk) noexcept;

  // Brings memory in ahead of demand; called by the populating thread only.
  void populate_ahead() noexcept;
  // True when less is populated than recording threads may want before the next round.
  [[nodiscard]] bool wants_population() const noexcept;

  // After the last chunk: gives back what was allocated ahead and closes the file. From here on forked
  // children have the memory too.
  void finish() noexcept;
  // The memory is not in this process: it forked while the recording was active. Nothing may be touched.
  [[nodiscard]] bool lost_in_fork() const noexcept;

  [[nodiscard]] FileHeader& header() const noexcept { return *reinterpret_cast<FileHeader*>(base_); }
  // What a reader of this recording may look at.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept;
  [[nodiscard]] std::uint64_t offset_of(const void* address) const noexcept {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(address) - base_);
  }
  [[nodiscard]] const std::string& fallback_reason() const noexcept { return fallback_reason_; }
  // Ops and Python calls so far.
  [[nodiscard]] std::uint64_t count_events() const noexcept;

 private:
  struct FreeRegion {
    std::uint64_t offset;
    std::uint64_t size_bytes;
  };
  enum class Growth { kDone, kNoMemory, kNoSpace, kUnsupported };

  void map_file(const std::string& path);
  void map_anonymous();
  [[nodiscard]] Growth allocate_disk(std::uint64_t end) noexcept;
  [[nodiscard]] Growth ensure_allocated(std::uint64_t end) noexcept;
  // Returns how much of the memory in front of `used_` that gave back.
  std::uint64_t drop_free_regions() noexcept;
  [[nodiscard]] ChunkHeader* take_free_region(std::uint64_t size_bytes) noexcept;
  [[nodiscard]] ChunkHeader* chunk_at(std::uint64_t offset) const noexcept {
    return reinterpret_cast<ChunkHeader*>(base_ + offset);
  }

  std::uint64_t cap_bytes_;
  std::byte* base_ = nullptr;
  int file_ = -1;
  std::string fallback_reason_;
  const std::uint64_t fork_generation_;
  std::atomic<bool> finished_{false};

  mutable std::mutex mutex_;  // of what chunks there are; never held over a system call
  std::uint64_t used_ = kGranuleBytes;
  std::vector<FreeRegion> free_regions_;

  std::mutex growth_mutex_;  // of the file's size, and what was taken of the process's memory
  std::atomic<std::uint64_t> allocated_{0};
  std::uint64_t taken_bytes_ = 0;

  std::atomic<std::uint64_t> populated_{0};
  std::atomic<std::uint64_t> ahead_bytes_;
  std::uint64_t used_last_round_ = 0;
};

}  // namespace torchprof
