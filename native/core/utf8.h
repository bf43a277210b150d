// Where the characters of UTF-8 begin and end.
#pragma once

#include <cstddef>
#include <string_view>

namespace torchprof {

// Bytes of the well-formed character that `text`, which is not empty, begins with; 0 when it is ill-formed
// (Unicode table 3-7).
[[nodiscard]] std::size_t character_bytes(std::string_view text) noexcept;

}  // namespace torchprof
