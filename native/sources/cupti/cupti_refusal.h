// Says in words why CUPTI refused something, and what helps.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sources/cupti/cupti_api.h"

namespace torchprof::cupti {

// One line: what was tried, what CUPTI said, what helps.
[[nodiscard]] std::string refusal(const CuptiApi& api, std::string_view tried, int result);

// Paths of the libraries that the process has loaded.
[[nodiscard]] std::vector<std::string> loaded_libraries();

// Who is likely to hold the one subscription that a process has: CUPTI does not say.
[[nodiscard]] std::string subscription_holder(const std::vector<std::string>& libraries,
                                              std::string_view injected_library);
[[nodiscard]] std::string subscription_holder();

}  // namespace torchprof::cupti
