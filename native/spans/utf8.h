// Text from anywhere made into the valid UTF-8 that protobuf demands.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/utf8.h"

namespace torchprof {

// The longest attribute value: Tempo cuts at 2,048 bytes.
inline constexpr std::size_t kMaxValueBytes = 2047;

// True when `text` is valid UTF-8 free of control characters (NUL among them).
[[nodiscard]] bool is_clean_utf8(std::string_view text) noexcept;

// `text` with every byte that is not valid UTF-8 (lone surrogates included) and every control character
// written as `\xNN`: readable and nothing lost.
[[nodiscard]] std::string clean_utf8(std::string_view text);

// The longest prefix of valid UTF-8 `text` within the limit that ends at a character.
[[nodiscard]] std::string_view cut_to_bytes(std::string_view text, std::size_t max_bytes) noexcept;
[[nodiscard]] std::string_view cut_to_characters(std::string_view text, std::size_t max_characters) noexcept;

}  // namespace torchprof
