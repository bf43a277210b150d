// Appends to the chunks of one kind and one thread, taking a new chunk when one is full. Not thread-safe:
// a cursor belongs to a thread, or to whoever holds the lock of what it writes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/arena.h"
#include "core/layout.h"
#include "core/populator.h"

namespace torchprof {

class ChunkCursor {
 public:
  ChunkCursor(ChunkKind kind, std::uint16_t record_bytes) noexcept
      : kind_(kind), record_bytes_(record_bytes) {}

  // Room in the current chunk, or nullptr.
  [[nodiscard]] std::byte* reserve_fast(std::uint64_t size_bytes) const noexcept {
    return static_cast<std::uint64_t>(end_ - next_) >= size_bytes ? next_ : nullptr;
  }
  // Room for `size_bytes`, or nullptr with the reason in `failure()`. Valid until the next call.
  std::byte* reserve(Arena& arena, std::uint64_t size_bytes) noexcept {
    if (static_cast<std::uint64_t>(end_ - next_) < size_bytes) [[unlikely]] {
      if (!take_chunk(arena, size_bytes)) {
        return nullptr;
      }
    }
    return next_;
  }

  // Make what was written where `reserve` pointed visible to readers.
  void commit_record(std::uint64_t size_bytes) noexcept { commit(size_bytes, 1); }
  void commit_bytes(std::uint64_t size_bytes) noexcept { commit(size_bytes, size_bytes); }

  [[nodiscard]] DropReason failure() const noexcept { return failure_; }

  void set_thread(std::uint32_t thread) noexcept { thread_ = thread; }

  // Gives the unused rest of the current chunk back and forgets the chunk.
  void close(Arena& arena) noexcept {
    if (chunk_ != nullptr) {
      arena.release_tail(*chunk_);
    }
    *this = ChunkCursor(kind_, record_bytes_);
  }

 private:
  void commit(std::uint64_t size_bytes, std::uint64_t units) noexcept {
    next_ += size_bytes;
    chunk_->committed.store(chunk_->committed.load(std::memory_order_relaxed) + units,
                            std::memory_order_release);
  }

  bool take_chunk(Arena& arena, std::uint64_t size_bytes) noexcept {
    const std::uint64_t needed =
        (sizeof(ChunkHeader) + size_bytes + kGranuleBytes - 1) / kGranuleBytes * kGranuleBytes;
    const ChunkResult result =
        arena.allocate(kind_, record_bytes_, thread_, sequence_, std::max(next_size_bytes_, needed), needed);
    if (result.chunk == nullptr) {
      failure_ = result.failure;
      return false;
    }
    if (arena.wants_population()) {
      Populator::wake();
    }
    if (chunk_ != nullptr) {
      arena.release_tail(*chunk_);
    }
    chunk_ = result.chunk;
    next_ = reinterpret_cast<std::byte*>(chunk_ + 1);
    end_ = reinterpret_cast<std::byte*>(chunk_) + chunk_->size_bytes;
    ++sequence_;
    next_size_bytes_ = std::min(next_size_bytes_ * 2, kMaxChunkBytes);
    return true;
  }

  std::byte* next_ = nullptr;
  std::byte* end_ = nullptr;
  ChunkHeader* chunk_ = nullptr;
  std::uint64_t next_size_bytes_ = kGranuleBytes;
  std::uint32_t thread_ = 0;
  std::uint32_t sequence_ = 0;
  DropReason failure_ = DropReason::kByteCap;
  ChunkKind kind_;
  std::uint16_t record_bytes_;
};

}  // namespace torchprof
