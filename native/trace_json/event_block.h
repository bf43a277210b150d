// The events of a piece of a trace as columns. Texts are numbers of the tables of `TraceTexts`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/layout.h"
#include "trace_json/intern_table.h"

namespace torchprof {

// The texts of a trace, as JSON.
struct TraceTexts {
  InternTable names;       // joined: name, overload name, bytes of the name; empty = none
  InternTable categories;  // a category; empty = none
  InternTable places;      // joined: process, thread; empty = none
  InternTable inputs;      // joined: sizes, types, strides, values; empty = none
  InternTable arguments;   // an object
};

inline constexpr std::uint32_t kNoText = 0xFFFFFFFF;  // stands for no text in a column

struct CompleteColumns {
  std::vector<std::int64_t> start_ns;  // from the base of the trace
  std::vector<std::int64_t> duration_ns;
  std::vector<std::uint32_t> name;
  std::vector<std::uint32_t> category;
  std::vector<std::uint32_t> place;
  std::vector<std::uint32_t> inputs;  // kNoText = none
  std::vector<std::uint16_t> flags;
  std::vector<std::int64_t> sequence;
  std::vector<std::uint32_t> forward_thread;
  std::vector<std::int64_t> correlation;
  std::vector<std::int64_t> external_id;
};

struct FlowColumns {
  std::vector<std::uint32_t> category;
  std::vector<std::int64_t> id;
  std::vector<std::uint8_t> is_start;
  std::vector<std::uint32_t> place;
  std::vector<std::int64_t> time_ns;
};

struct EventBlock {
  CompleteColumns complete;
  std::vector<DeviceRecord> devices;       // `event` counts in `complete`
  std::vector<ArgumentsRecord> arguments;  // likewise; `text` is a number of TraceTexts::arguments
  FlowColumns flows;
  std::vector<MemoryRecord> memory;  // `track` is a number of TraceTexts::places
  // Everything else, one text an event, in the order of the trace.
  std::string other_text;
  std::vector<std::uint64_t> other_ends;
  std::uint64_t arguments_left_out = 0;  // as they were longer than kMaxArgumentsBytes

  void add_other(std::string_view text) {
    other_text.append(text);
    other_ends.push_back(other_text.size());
  }
};

}  // namespace torchprof
