// Numbers of JSON text, exactly.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/json_scanner.h"

namespace torchprof {

// An integer of at most 18 digits; nothing for any other value.
[[nodiscard]] std::optional<std::int64_t> small_integer(const JsonValue& value) noexcept;

// Microseconds, an integer or a decimal without exponent, as nanoseconds; nothing for any other value and for
// what a recording cannot hold. More than three decimals are rounded to the nearest, to the even one of two.
[[nodiscard]] std::optional<std::int64_t> microseconds(const JsonValue& value) noexcept;

// The nearest double to any number; nothing for other values and what overflows.
[[nodiscard]] std::optional<double> real_number(const JsonValue& value) noexcept;

}  // namespace torchprof
