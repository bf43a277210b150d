// Events of the common kinds, in their common shapes, into columns; all others stay text.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace_json/event_arguments.h"
#include "trace_json/event_block.h"
#include "trace_json/event_text.h"

namespace torchprof {

using CategoryClasses = std::unordered_map<std::string, CategoryClass>;  // by category in lower case

class EventCollector {
 public:
  explicit EventCollector(CategoryClasses classes) : classes_(std::move(classes)) {}

  // `is_portable`: see JsonScanner.
  void add(const EventText& event, bool is_portable);
  void add_other(std::string_view text) { block_.add_other(text); }

  // What was added since the last call.
  [[nodiscard]] EventBlock take() { return std::exchange(block_, EventBlock()); }
  [[nodiscard]] const TraceTexts& texts() const noexcept { return texts_; }

 private:
  // Each returns false, and has added nothing, where the event is not of the common shape.
  [[nodiscard]] bool add_complete(const EventText& event);
  [[nodiscard]] bool add_flow(const EventText& event, bool is_start);
  [[nodiscard]] bool add_memory(const EventText& event);

  std::uint32_t category(const JsonValue& value);
  std::uint32_t place(const EventText& event);
  std::uint32_t name(const EventText& event, const EventArguments& arguments);
  std::uint32_t inputs(const EventArguments& arguments);
  void add_other_arguments(const EventText& event, CategoryClass category, std::uint64_t row);

  CategoryClasses classes_;
  std::vector<CategoryClass> class_of_;  // by number of TraceTexts::categories
  TraceTexts texts_;
  EventBlock block_;
  JoinedTexts joined_;
  std::string other_arguments_;
};

}  // namespace torchprof
