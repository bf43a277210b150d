// The names under which drops are counted: in Python, in metrics and in reports.
#pragma once

#include <cstddef>
#include <string_view>

#include "core/layout.h"

namespace torchprof {

// snake_case name of a reason; empty for an index that is reserved.
std::string_view drop_reason_name(std::size_t index) noexcept;

}  // namespace torchprof
