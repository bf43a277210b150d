#include "trace_json/event_collector.h"

#include <algorithm>
#include <optional>

#include "trace_json/numbers.h"

namespace torchprof {
namespace {

// What names something: text or an integer, or nothing.
bool is_label(const JsonValue& value) noexcept {
  return value.kind == JsonKind::kString || value.kind == JsonKind::kInteger || value.kind == JsonKind::kNull;
}

// `null` and a member that is not there say the same.
std::string_view label(const JsonValue& value) noexcept {
  return value.kind == JsonKind::kNull ? std::string_view() : value.text;
}

bool has_labels(const EventText& event) noexcept {
  return is_label(event.name) && is_label(event.category) && !event.category.has_escapes &&
         is_label(event.process) && is_label(event.thread);
}

}  // namespace

void EventCollector::add(const EventText& event, bool is_portable) {
  bool is_in = false;
  if (is_portable && !event.has_escaped_keys && event.phase.text.size() == 3 && has_labels(event)) {
    switch (event.phase.text[1]) {
      case 'X':
        is_in = add_complete(event);
        break;
      case 's':
        is_in = add_flow(event, true);
        break;
      case 't':
      case 'f':
        is_in = add_flow(event, false);
        break;
      case 'i':
      case 'I':
      case 'R':
        is_in = add_memory(event);
        break;
      case 'C':
        is_in = event.category.text == "\"memory_total\"";  // what the instants say already
        break;
      default:
        break;
    }
  }
  if (!is_in) add_other(event.text);
}

bool EventCollector::add_complete(const EventText& event) {
  const std::optional<std::int64_t> start_ns = microseconds(event.time);
  const std::optional<std::int64_t> duration_ns = microseconds(event.duration);
  const bool has_arguments = event.arguments.kind == JsonKind::kObject;
  if (!start_ns || !duration_ns || (!has_arguments && event.arguments.kind != JsonKind::kNull)) return false;
  const std::uint32_t category_number = category(event.category);
  const CategoryClass category_class = class_of_[category_number];
  EventArguments arguments;
  if (category_class == CategoryClass::kCounters || !arguments.read(event, category_class)) return false;

  CompleteColumns& columns = block_.complete;
  const std::uint64_t row = columns.start_ns.size();
  columns.start_ns.push_back(*start_ns);
  columns.duration_ns.push_back(*duration_ns);
  columns.name.push_back(name(event, arguments));
  columns.category.push_back(category_number);
  columns.place.push_back(place(event));
  columns.inputs.push_back(inputs(arguments));
  columns.flags.push_back(arguments.flags);
  columns.sequence.push_back(arguments.sequence);
  columns.forward_thread.push_back(arguments.forward_thread);
  columns.correlation.push_back(arguments.correlation);
  columns.external_id.push_back(arguments.external_id);
  if (category_class != CategoryClass::kOther) {
    arguments.device.event = row;
    block_.devices.push_back(arguments.device);
  }
  add_other_arguments(event, category_class, row);
  return true;
}

bool EventCollector::add_flow(const EventText& event, bool is_start) {
  const std::optional<std::int64_t> time_ns = microseconds(event.time);
  const std::optional<std::int64_t> id = small_integer(event.id);
  if (!time_ns || !id) return false;
  FlowColumns& flows = block_.flows;
  flows.category.push_back(category(event.category));
  flows.id.push_back(*id);
  flows.is_start.push_back(is_start ? 1 : 0);
  flows.place.push_back(place(event));
  flows.time_ns.push_back(*time_ns);
  return true;
}

bool EventCollector::add_memory(const EventText& event) {
  if (event.name.text != "\"[memory]\"" || event.arguments.kind != JsonKind::kObject) return false;
  const std::optional<std::int64_t> time_ns = microseconds(event.time);
  if (!time_ns) return false;
  MemoryRecord record{};
  record.time = static_cast<std::uint64_t>(*time_ns);
  record.event = -1;
  record.total_allocated_bytes = -1;
  record.total_reserved_bytes = -1;
  record.device = -1;
  for (const ArgumentText& argument : event.argument_list) {
    if (argument.key < ArgumentKey::kMemoryBytes || argument.key > ArgumentKey::kMemoryReserved) continue;
    const std::optional<std::int64_t> number = small_integer(argument.value);
    if (!number) return false;
    switch (argument.key) {
      case ArgumentKey::kMemoryBytes:
        record.size_bytes = *number;
        break;
      case ArgumentKey::kMemoryAddress:
        record.address = static_cast<std::uint64_t>(std::max<std::int64_t>(*number, 0));
        break;
      case ArgumentKey::kMemoryDeviceType:
        record.device_type = *number >= 0 && *number <= 0xFF ? static_cast<std::uint8_t>(*number) : 0;
        break;
      case ArgumentKey::kMemoryDevice:
        record.device =
            *number >= INT32_MIN && *number <= INT32_MAX ? static_cast<std::int32_t>(*number) : -1;
        break;
      case ArgumentKey::kMemoryAllocated:
        record.total_allocated_bytes = std::max<std::int64_t>(*number, -1);
        break;
      default:
        record.total_reserved_bytes = std::max<std::int64_t>(*number, -1);
        break;
    }
  }
  record.track = place(event);
  block_.memory.push_back(record);
  return true;
}

std::uint32_t EventCollector::category(const JsonValue& value) {
  const std::uint32_t number = texts_.categories.intern(label(value));
  if (number == class_of_.size()) {
    std::string lower;
    if (value.kind == JsonKind::kString) {
      for (const char character : value.inside()) {
        lower += static_cast<char>(character >= 'A' && character <= 'Z' ? character | 0x20 : character);
      }
    }
    const auto known = classes_.find(lower);
    class_of_.push_back(known == classes_.end() ? CategoryClass::kOther : known->second);
  }
  return number;
}

std::uint32_t EventCollector::place(const EventText& event) {
  joined_.clear();
  joined_.add(label(event.process));
  joined_.add(label(event.thread));
  return texts_.places.intern(joined_.view());
}

std::uint32_t EventCollector::name(const EventText& event, const EventArguments& arguments) {
  joined_.clear();
  joined_.add(arguments.function.empty() ? label(event.name) : arguments.function);
  joined_.add(arguments.overload_name);
  joined_.add(arguments.name_bytes);
  return texts_.names.intern(joined_.view());
}

std::uint32_t EventCollector::inputs(const EventArguments& arguments) {
  if (arguments.input_dims.empty() && arguments.input_types.empty()) return kNoText;
  joined_.clear();
  joined_.add(arguments.input_dims);
  joined_.add(arguments.input_types);
  joined_.add(arguments.input_strides);
  joined_.add(arguments.concrete_inputs);
  return texts_.inputs.intern(joined_.view());
}

void EventCollector::add_other_arguments(const EventText& event, CategoryClass category, std::uint64_t row) {
  collect_other_arguments(event, category, other_arguments_);
  if (other_arguments_.empty()) return;
  if (other_arguments_.size() > kMaxArgumentsBytes) {
    ++block_.arguments_left_out;
    return;
  }
  block_.arguments.push_back(
      {.event = row, .text = texts_.arguments.intern(other_arguments_), .reserved = 0});
}

}  // namespace torchprof
