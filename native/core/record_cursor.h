// Walks over the records of several chunks as if they were one.
#pragma once

#include <cstddef>
#include <span>

#include "core/chunk_index.h"

namespace torchprof {

template <typename Record>
class RecordCursor {
 public:
  // Both must outlive the cursor.
  RecordCursor(std::span<const std::byte> file, std::span<const Chunk* const> chunks)
      : file_(file), chunks_(chunks) {
    enter_chunk();
  }

  // The current record; nullptr after the last.
  [[nodiscard]] const Record* get() const noexcept { return left_.empty() ? nullptr : left_.data(); }
  void advance() noexcept {
    left_ = left_.subspan(1);
    if (left_.empty()) enter_chunk();
  }

 private:
  void enter_chunk() noexcept {
    while (left_.empty() && !chunks_.empty()) {
      left_ = records_of<Record>(file_, *chunks_.front());
      chunks_ = chunks_.subspan(1);
    }
  }

  std::span<const std::byte> file_;
  std::span<const Chunk* const> chunks_;
  std::span<const Record> left_;
};

}  // namespace torchprof
