// A recording file copied into memory, consistent even while its process is still writing it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/chunk_index.h"

namespace torchprof {

struct FileImage {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
  // The chunks as they were before the strings, threads and inputs that their records refer to were copied.
  std::vector<Chunk> record_chunks;
};

// Throws std::system_error when the file cannot be read, std::runtime_error when it is no recording.
[[nodiscard]] FileImage read_file(const std::string& path);

// Throws std::runtime_error, saying what is wrong, unless `file` starts with a header that this version
// reads. `described` names the file in the message.
void require_recording_header(std::span<const std::byte> file, const std::string& described);

}  // namespace torchprof
