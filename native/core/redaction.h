// Takes out of a recording what the people who wrote a program put into it in words.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/recording.h"

namespace torchprof {

using ReplaceText = std::function<std::string(std::string_view)>;

// A copy in which the names of user scopes, and the strings among the inputs of events, are what `replace`
// made of them. It is called once for each distinct text; what it throws is passed on. Damaged inputs may
// hold anything: the copy has none for them. Names that no event bears any more stay in the string pool.
[[nodiscard]] Recording redact(const Recording& recording, const ReplaceText& replace);

}  // namespace torchprof
