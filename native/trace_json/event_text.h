// One trace event as it stands in the text: where its fields are, not yet what they mean.
#pragma once

#include <string_view>
#include <vector>

#include "core/json_scanner.h"
#include "trace_json/argument_keys.h"

namespace torchprof {

struct ArgumentText {
  ArgumentKey key;
  std::string_view name;  // with its quotes
  JsonValue value;
};

// Of a member that is there more than once the last counts. Members that no recording keeps are stepped over.
struct EventText {
  std::string_view text;
  JsonValue phase;
  JsonValue name;
  JsonValue category;
  JsonValue process;
  JsonValue thread;
  JsonValue time;
  JsonValue duration;
  JsonValue id;
  JsonValue arguments;
  std::vector<ArgumentText> argument_list;  // of `arguments`, if that is an object
  bool has_escaped_keys = false;            // of which any may be one of the above

  // Reads the object that comes next, and forgets what it read before. False where it is none.
  [[nodiscard]] bool read(JsonScanner& scanner);

 private:
  [[nodiscard]] bool read_arguments(JsonScanner& scanner);
  [[nodiscard]] JsonValue* field(std::string_view key) noexcept;
};

}  // namespace torchprof
