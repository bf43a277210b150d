// The Python frames of one thread, so that they and its ops never cross.
//
// Both kinds of event are properly nested where their bounds are known. They are not for a frame that was on
// the stack before its thread was watched, and for one that its thread was last seen in. Where an op crosses
// such a bound the frame is given the op's: whichever of the two encloses the other, it holds no less than it
// did.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/chunk_index.h"
#include "core/layout.h"
#include "core/record_cursor.h"

namespace torchprof {

inline constexpr std::uint64_t kStillOpen = std::numeric_limits<std::uint64_t>::max();

struct FrameSlice {
  const FrameRecord* record = nullptr;
  std::uint64_t start_ticks = 0;
  std::uint64_t end_ticks = 0;  // kStillOpen when the recording ends first
};

// In the order of rows: by start, the enclosing one first.
class FrameReader {
 public:
  // Chunks of one thread, each kind in sequence. Both must outlive the reader.
  FrameReader(std::span<const std::byte> file, std::span<const Chunk* const> frames,
              std::span<const Chunk* const> ops);

  // The current frame; nullptr after the last. Valid until the next `advance`.
  [[nodiscard]] const FrameSlice* get() const noexcept {
    return current_.record == nullptr ? nullptr : &current_;
  }
  void advance() noexcept;

 private:
  [[nodiscard]] static bool is_certain(const FrameRecord& record) noexcept;
  void skip_uncertain() noexcept;

  RecordCursor<FrameRecord> certain_;
  std::vector<FrameSlice> uncertain_;
  std::size_t next_uncertain_ = 0;
  FrameSlice current_;
};

// Whether an event [start, end] comes before another in the order of rows.
inline bool comes_before(std::uint64_t start_a, std::uint64_t end_a, std::uint64_t start_b,
                         std::uint64_t end_b) noexcept {
  return start_a != start_b ? start_a < start_b : end_a > end_b;
}

}  // namespace torchprof
