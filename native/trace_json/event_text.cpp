#include "trace_json/event_text.h"

namespace torchprof {

bool EventText::read(JsonScanner& scanner) {
  for (JsonValue* value : {&phase, &name, &category, &process, &thread, &time, &duration, &id, &arguments}) {
    *value = JsonValue();
  }
  argument_list.clear();
  has_escaped_keys = false;
  return scanner.members([&](const JsonValue& key) {
    has_escaped_keys = has_escaped_keys || key.has_escapes;
    if (key.inside() == "args") return read_arguments(scanner);
    JsonValue unread;
    JsonValue* const value = field(key.inside());
    return scanner.value(value != nullptr ? *value : unread);
  });
}

bool EventText::read_arguments(JsonScanner& scanner) {
  argument_list.clear();
  if (scanner.peek() != '{') return scanner.value(arguments);
  const bool is_sound = scanner.members([&](const JsonValue& key) {
    has_escaped_keys = has_escaped_keys || key.has_escapes;
    ArgumentText& argument = argument_list.emplace_back();
    argument.key = argument_key(key.inside());
    argument.name = key.text;
    return scanner.value(argument.value);
  });
  arguments.kind = JsonKind::kObject;
  arguments.text = "{}";  // what is in it is in the list
  return is_sound;
}

JsonValue* EventText::field(std::string_view key) noexcept {
  switch (key.size()) {
    case 2:
      if (key == "ph") return &phase;
      if (key == "ts") return &time;
      return key == "id" ? &id : nullptr;
    case 3:
      if (key == "pid") return &process;
      if (key == "tid") return &thread;
      if (key == "cat") return &category;
      return key == "dur" ? &duration : nullptr;
    case 4:
      return key == "name" ? &name : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace torchprof
