// Events of the counting units that the kernel describes below /sys/bus/event_source/devices:
//
//   <unit>/type            its perf type
//   <unit>/format/<term>   where a term's bits go, like `config:0-7,32-35`
//   <unit>/events/<name>   terms that a name stands for, like `event=0x3c,umask=0x1`
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sources/perf_events/event_name.h"

namespace torchprof::perf {

// `terms`: as between the slashes of `cpu/event=0x3c,umask=0x1/`. Throws std::invalid_argument.
[[nodiscard]] Event parse_unit_event(std::string_view unit, std::string_view terms,
                                     const std::string& devices);

// The event that the unit gives this name, if any. Throws std::invalid_argument when its terms make no sense.
[[nodiscard]] std::optional<Event> find_unit_event(std::string_view unit, std::string_view name,
                                                   const std::string& devices);

}  // namespace torchprof::perf
