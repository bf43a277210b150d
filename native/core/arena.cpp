#include "core/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <system_error>

#include "core/memory_budget.h"
#include "core/process_identity.h"
#include "core/recording_file.h"

namespace torchprof {
namespace {

constexpr std::uint64_t kMinAheadBytes = 2 * kMaxChunkBytes;
constexpr std::uint64_t kMaxAheadBytes = 64 * kMaxChunkBytes;
constexpr std::uint64_t kPopulateStepBytes = kMaxChunkBytes;
constexpr std::uint64_t kPageBytes = 4096;
// Gaps left by exited threads beyond this many are forgotten rather than searched.
constexpr std::size_t kMaxFreeRegions = 4096;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) noexcept {
  return (value + unit - 1) / unit * unit;
}

constexpr std::uint64_t round_down(std::uint64_t value, std::uint64_t unit) noexcept {
  return value / unit * unit;
}

// `committed` first: a reader that meets a header while it changes must find nothing behind it.
void write_header(ChunkHeader& chunk, ChunkKind kind, std::uint16_t record_bytes, std::uint32_t thread,
                  std::uint32_t sequence, std::uint64_t size_bytes) noexcept {
  chunk.committed.store(0, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  chunk.kind = static_cast<std::uint16_t>(kind);
  chunk.record_bytes = record_bytes;
  chunk.size_bytes = size_bytes;
  chunk.thread = thread;
  chunk.sequence = sequence;
  chunk.generation = 0;
  chunk.magic = kChunkMagic;
}

void touch(std::byte* begin, std::byte* end) noexcept {
  // An atomic no-op add: the page becomes writable without racing with whoever already writes to it.
  for (std::byte* page = begin; page < end; page += kPageBytes) {
    std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(page))
        .fetch_add(0, std::memory_order_relaxed);
  }
}

void populate(std::byte* begin, std::byte* end) noexcept {
#ifdef MADV_POPULATE_WRITE
  static std::atomic<bool> supported{true};
  if (supported.load(std::memory_order_relaxed)) {
    if (::madvise(begin, static_cast<std::size_t>(end - begin), MADV_POPULATE_WRITE) == 0) {
      return;
    }
    if (errno != EINVAL) {
      return;  // no memory: leave it to the thread that needs the page, which may find some
    }
    supported.store(false, std::memory_order_relaxed);
  }
#endif
  touch(begin, end);
}

}  // namespace

Arena::Arena(const std::string& path, std::uint64_t cap_bytes)
    : cap_bytes_(round_down(cap_bytes, kGranuleBytes)),
      fork_generation_(fork_generation()),
      ahead_bytes_(kMinAheadBytes) {
  if (cap_bytes < kMinCapBytes || cap_bytes > kMaxCapBytes) {
    throw std::system_error(EINVAL, std::generic_category(),
                            "the byte cap of a recording must be between " + std::to_string(kMinCapBytes) +
                                " and " + std::to_string(kMaxCapBytes) + ", not " +
                                std::to_string(cap_bytes));
  }
  if (path.empty()) {
    map_anonymous();
  } else {
    map_file(path);
  }
  process_memory.take_anyway(kMinCapBytes);
  taken_bytes_ = kMinCapBytes;
  // A child's writes would appear in the parent's recording.
  static_cast<void>(::madvise(base_, cap_bytes_, MADV_DONTFORK));

  auto* header = new (base_) FileHeader{};
  std::memcpy(static_cast<void*>(header->magic), static_cast<const void*>(kFileMagic), sizeof(kFileMagic));
  header->version = kFormatVersion;
  header->endian = kEndianMark;
  header->header_bytes = kGranuleBytes;
  header->granule_bytes = kGranuleBytes;
  header->cap_bytes = cap_bytes_;
  header->used_bytes.store(used_, std::memory_order_release);
}

Arena::~Arena() {
  if (lost_in_fork()) {
    // Something else may be mapped here by now.
    if (file_ >= 0) {
      ::close(file_);
    }
    return;
  }
  finish();
  ::munmap(base_, cap_bytes_);
  if (fork_generation_ == fork_generation()) {
    process_memory.give_back(taken_bytes_);
  }
}

void Arena::map_file(const std::string& path) {
  RecordingFile file(path);
  fallback_reason_ = file.unsafe_reason();
  if (fallback_reason_.empty()) {
    file_ = file.descriptor();
    const Growth growth = allocate_disk(kMinCapBytes);
    if (growth == Growth::kDone) {
      void* address = ::mmap(nullptr, cap_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
      if (address == MAP_FAILED) {
        file_ = -1;
        throw std::system_error(errno, std::generic_category(), "cannot map the recording");
      }
      base_ = static_cast<std::byte*>(address);
      static_cast<void>(file.release());
      return;
    }
    file_ = -1;
    if (growth == Growth::kNoSpace) {
      throw std::system_error(ENOSPC, std::generic_category(), "no disk space for a recording at " + path);
    }
    fallback_reason_ = "its file system cannot reserve disk space (fallocate)";
  }
  map_anonymous();
}

void Arena::map_anonymous() {
  void* address =
      ::mmap(nullptr, cap_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    throw std::system_error(
        errno, std::generic_category(),
        "cannot reserve " + std::to_string(cap_bytes_) + " bytes for a recording; lower its byte cap");
  }
  base_ = static_cast<std::byte*>(address);
  allocated_.store(kMinCapBytes, std::memory_order_relaxed);
}

Arena::Growth Arena::allocate_disk(std::uint64_t end) noexcept {
  const std::uint64_t begin = allocated_.load(std::memory_order_relaxed);
  switch (reserve_disk(file_, begin, end)) {
    case 0:
      allocated_.store(end, std::memory_order_release);
      return Growth::kDone;
    case EOPNOTSUPP:
    case ENOSYS:
      return Growth::kUnsupported;
    default:
      return Growth::kNoSpace;
  }
}

Arena::Growth Arena::ensure_allocated(std::uint64_t end) noexcept {
  if (end <= allocated_.load(std::memory_order_acquire)) {
    return Growth::kDone;
  }
  const std::lock_guard lock(growth_mutex_);
  const std::uint64_t begin = allocated_.load(std::memory_order_relaxed);
  if (end <= begin) {
    return Growth::kDone;
  }
  if (finished_) {
    return Growth::kNoSpace;
  }
  if (!process_memory.take(end - begin)) {
    return Growth::kNoMemory;
  }
  if (file_ >= 0) {
    if (const Growth growth = allocate_disk(end); growth != Growth::kDone) {
      process_memory.give_back(end - begin);
      return growth;
    }
  } else {
    allocated_.store(end, std::memory_order_release);
  }
  taken_bytes_ += end - begin;
  return Growth::kDone;
}

ChunkHeader* Arena::take_free_region(std::uint64_t size_bytes) noexcept {
  // First fit from the back, where the last thread to exit left its rest.
  for (std::size_t i = free_regions_.size(); i-- > 0;) {
    FreeRegion& region = free_regions_[i];
    if (region.size_bytes < size_bytes) {
      continue;
    }
    ChunkHeader* chunk = chunk_at(region.offset);
    if (region.size_bytes > size_bytes) {
      // The rest gets its header before the taken part shrinks: a killed process leaves no gap.
      region.offset += size_bytes;
      region.size_bytes -= size_bytes;
      write_header(*chunk_at(region.offset), ChunkKind::kFree, 1, 0, 0, region.size_bytes);
    } else {
      free_regions_[i] = free_regions_.back();
      free_regions_.pop_back();
    }
    return chunk;
  }
  return nullptr;
}

ChunkResult Arena::allocate(ChunkKind kind, std::uint16_t record_bytes, std::uint32_t thread,
                            std::uint32_t sequence, std::uint64_t size_bytes,
                            std::uint64_t min_bytes) noexcept {
  ChunkResult result;
  // The next smaller size worth a try; zero when there is none.
  const auto smaller = [min_bytes](std::uint64_t size) noexcept {
    return size == min_bytes ? 0 : std::max(round_down(size / 2, kGranuleBytes), min_bytes);
  };
  while (size_bytes != 0) {
    std::unique_lock lock(mutex_);
    if (ChunkHeader* chunk = take_free_region(size_bytes); chunk != nullptr) {
      write_header(*chunk, kind, record_bytes, thread, sequence, size_bytes);
      result.chunk = chunk;
      return result;
    }
    const std::uint64_t end = used_ + size_bytes;
    if (end > cap_bytes_) {
      result.failure = DropReason::kByteCap;
      size_bytes = smaller(size_bytes);
      continue;
    }
    if (end <= allocated_.load(std::memory_order_acquire)) {
      ChunkHeader* chunk = chunk_at(used_);
      write_header(*chunk, kind, record_bytes, thread, sequence, size_bytes);
      used_ = end;
      header().used_bytes.store(end, std::memory_order_release);
      result.chunk = chunk;
      return result;
    }
    lock.unlock();
    if (const Growth growth = ensure_allocated(end); growth != Growth::kDone) {
      result.failure = growth == Growth::kNoMemory ? DropReason::kMemoryLimit : DropReason::kDiskFull;
      size_bytes = smaller(size_bytes);
    }
  }
  return result;
}

void Arena::release_tail(ChunkHeader& chunk) noexcept {
  const std::uint64_t filled =
      sizeof(ChunkHeader) + (chunk.committed.load(std::memory_order_relaxed) * chunk.record_bytes);
  const std::uint64_t keep = std::max(round_up(filled, kGranuleBytes), kGranuleBytes);
  const std::lock_guard lock(mutex_);
  if (keep >= chunk.size_bytes) {
    return;
  }
  const FreeRegion rest{.offset = offset_of(&chunk) + keep, .size_bytes = chunk.size_bytes - keep};
  if (free_regions_.size() >= kMaxFreeRegions) {
    return;
  }
  try {
    free_regions_.push_back(rest);
  } catch (const std::bad_alloc&) {
    return;
  }
  write_header(*chunk_at(rest.offset), ChunkKind::kFree, 1, 0, 0, rest.size_bytes);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  chunk.size_bytes = keep;
}

bool Arena::wants_population() const noexcept {
  const std::uint64_t used = header().used_bytes.load(std::memory_order_relaxed);
  const std::uint64_t populated = populated_.load(std::memory_order_relaxed);
  return populated < cap_bytes_ && populated < used + (ahead_bytes_.load(std::memory_order_relaxed) / 2);
}

void Arena::populate_ahead() noexcept {
  const std::uint64_t used = header().used_bytes.load(std::memory_order_relaxed);
  // Demand since the last round says how far ahead this one must reach.
  const std::uint64_t demand = used > used_last_round_ ? used - used_last_round_ : 0;
  used_last_round_ = used;
  const std::uint64_t ahead = std::clamp(
      std::max(4 * demand, ahead_bytes_.load(std::memory_order_relaxed) / 2), kMinAheadBytes, kMaxAheadBytes);
  ahead_bytes_.store(ahead, std::memory_order_relaxed);

  const std::uint64_t goal = std::min(round_up(used + ahead, kGranuleBytes), cap_bytes_);
  std::uint64_t populated = std::max(populated_.load(std::memory_order_relaxed), used);
  while (populated < goal) {
    const std::uint64_t end = std::min(populated + kPopulateStepBytes, goal);
    if (ensure_allocated(end) != Growth::kDone) {
      return;  // no room for all of it; a recording thread that needs less may still get that
    }
    populate(base_ + populated, base_ + end);
    populated = end;
    populated_.store(populated, std::memory_order_relaxed);
  }
}

std::span<const std::byte> Arena::bytes() const noexcept {
  return {base_, header().used_bytes.load(std::memory_order_acquire)};
}

std::uint64_t Arena::count_events() const noexcept {
  const std::lock_guard lock(mutex_);
  std::uint64_t count = 0;
  for (std::uint64_t offset = kGranuleBytes; offset < used_;) {
    const ChunkHeader& chunk = *chunk_at(offset);
    const auto kind = static_cast<ChunkKind>(chunk.kind);
    if (kind == ChunkKind::kOps || kind == ChunkKind::kFrames) {
      count += chunk.committed.load(std::memory_order_relaxed);
    }
    offset += chunk.size_bytes;
  }
  return count;
}

bool Arena::lost_in_fork() const noexcept { return !finished_ && fork_generation_ != fork_generation(); }

std::uint64_t Arena::drop_free_regions() noexcept {
  std::uint64_t given_back = 0;
  std::sort(free_regions_.begin(), free_regions_.end(),
            [](const FreeRegion& a, const FreeRegion& b) noexcept { return a.offset > b.offset; });
  for (const FreeRegion& region : free_regions_) {
    if (region.offset + region.size_bytes == used_) {
      used_ = region.offset;
    } else {
      // Its header stays; the rest goes back to the machine.
      ::madvise(base_ + region.offset + kPageBytes, region.size_bytes - kPageBytes,
                file_ >= 0 ? MADV_REMOVE : MADV_DONTNEED);
      given_back += region.size_bytes - kPageBytes;
    }
  }
  free_regions_.clear();
  header().used_bytes.store(used_, std::memory_order_release);
  return given_back;
}

void Arena::finish() noexcept {
  if (finished_) {
    return;
  }
  const std::lock_guard growth_lock(growth_mutex_);
  const std::lock_guard lock(mutex_);
  std::uint64_t unused = drop_free_regions();
  unused += allocated_.load(std::memory_order_relaxed) - used_;
  process_memory.give_back(unused);
  taken_bytes_ -= unused;
  allocated_.store(used_, std::memory_order_relaxed);  // nothing is handed out from here on
  if (file_ >= 0) {
    static_cast<void>(::ftruncate(file_, static_cast<off_t>(used_)));
    ::close(file_);
    file_ = -1;
  } else {
    ::madvise(base_ + used_, cap_bytes_ - used_, MADV_DONTNEED);
  }
  ::madvise(base_, cap_bytes_, MADV_DOFORK);
  finished_ = true;
}

}  // namespace torchprof
