#include "trace_json/event_arguments.h"

#include <cmath>
#include <limits>
#include <optional>

#include "trace_json/numbers.h"

namespace torchprof {
namespace {

constexpr std::int64_t kUnsignedMinusOne = 0xFFFFFFFF;

bool is_of_work(ArgumentKey key) noexcept {
  return key >= ArgumentKey::kStream && key <= ArgumentKey::kPriority;
}

bool is_of_call(ArgumentKey key) noexcept { return key == ArgumentKey::kCbid || key == ArgumentKey::kCid; }

bool is_of_any(ArgumentKey key) noexcept {
  return key >= ArgumentKey::kExternalId && key <= ArgumentKey::kPlacement;
}

// An integer into a field: null, and what the field cannot hold, becomes `unknown`.
template <typename Field>
bool read_integer(const JsonValue& value, Field& field, std::int64_t unknown = -1) {
  if (value.kind == JsonKind::kNull) {
    field = static_cast<Field>(unknown);
    return true;
  }
  const std::optional<std::int64_t> number = small_integer(value);
  if (!number) return false;
  const bool fits = *number >= static_cast<std::int64_t>(std::numeric_limits<Field>::min()) &&
                    *number <= static_cast<std::int64_t>(std::numeric_limits<Field>::max());
  field = static_cast<Field>(fits ? *number : unknown);
  return true;
}

bool read_real(const JsonValue& value, float& field) {
  if (value.kind == JsonKind::kNull) {
    field = std::numeric_limits<float>::quiet_NaN();
    return true;
  }
  const std::optional<double> number = real_number(value);
  if (!number) return false;
  field = std::abs(*number) > std::numeric_limits<float>::max()
              ? std::copysign(std::numeric_limits<float>::infinity(), static_cast<float>(*number))
              : static_cast<float>(*number);
  return true;
}

bool read_dimensions(const JsonValue& value, std::uint32_t (&field)[3]) {
  if (value.kind != JsonKind::kArray) return false;
  JsonScanner scanner(value.text);
  std::size_t count = 0;
  const bool is_whole = scanner.items([&] {
    JsonValue item;
    if (count == std::size(field) || !scanner.value(item) || item.kind != JsonKind::kInteger) return false;
    return read_integer(item, field[count++], 0);
  });
  return is_whole && count == std::size(field);
}

}  // namespace

DeviceRecord blank_device() noexcept {
  constexpr float kNotKnown = std::numeric_limits<float>::quiet_NaN();
  return {.event = 0,
          .external_id = -1,
          .stream = -1,
          .size_bytes = -1,
          .graph_id = -1,
          .graph_node_id = -1,
          .wait_correlation = -1,
          .wait_stream = -1,
          .wait_event = -1,
          .device = -1,
          .context = -1,
          .grid = {},
          .block = {},
          .registers = -1,
          .shared_bytes = -1,
          .blocks_per_sm = kNotKnown,
          .warps_per_sm = kNotKnown,
          .occupancy_percent = kNotKnown,
          .callback_id = -1,
          .priority = -1,
          .reserved = 0};
}

bool EventArguments::read(const EventText& event, CategoryClass category) {
  for (const ArgumentText& argument : event.argument_list) {
    if (is_of_any(argument.key)) {
      if (!read_common(argument)) return false;
    } else if (category == CategoryClass::kCall && is_of_call(argument.key)) {
      if (!read_call(argument)) return false;
    } else if (category == CategoryClass::kDevice && is_of_work(argument.key)) {
      if (!read_work(argument)) return false;
    }
  }
  device.external_id = has_external_id_ ? external_id : old_external_id_;
  if (sequence < 0) forward_thread = 0;
  return true;
}

bool EventArguments::read_common(const ArgumentText& argument) {
  const JsonValue& value = argument.value;
  switch (argument.key) {
    case ArgumentKey::kExternalId:
      has_external_id_ = value.kind != JsonKind::kNull;
      return read_integer(value, external_id);
    case ArgumentKey::kOldExternalId:
      return read_integer(value, old_external_id_);
    case ArgumentKey::kCorrelation:
      return read_integer(value, correlation);
    case ArgumentKey::kSequence:
      return read_integer(value, sequence);
    case ArgumentKey::kForwardThread:
      return read_integer(value, forward_thread, 0);
    case ArgumentKey::kInputDims:
      input_dims = value.text;
      return true;
    case ArgumentKey::kInputTypes:
      input_types = value.text;
      return true;
    case ArgumentKey::kInputStrides:
      input_strides = value.text;
      return true;
    case ArgumentKey::kConcreteInputs:
      concrete_inputs = value.text;
      return true;
    case ArgumentKey::kOverloadName:
      overload_name = value.text;
      return true;
    case ArgumentKey::kNameBytes:
      name_bytes = value.text;
      return true;
    case ArgumentKey::kFunction:
      function = value.kind == JsonKind::kString ? value.text : std::string_view();
      return true;
    case ArgumentKey::kFinished:
      if (value.kind == JsonKind::kFalse) flags |= kFlagUnfinished;
      return true;
    case ArgumentKey::kTraining:
      if (value.kind == JsonKind::kTrue) flags |= kFlagTraining;
      if (value.kind == JsonKind::kFalse) flags |= kFlagEvaluation;
      return true;
    default:
      return false;
  }
}

bool EventArguments::read_call(const ArgumentText& argument) {
  if (argument.key == ArgumentKey::kCbid) {
    has_callback_id_ = argument.value.kind != JsonKind::kNull;
    return read_integer(argument.value, device.callback_id);
  }
  std::int32_t other_id = -1;
  if (!read_integer(argument.value, other_id)) return false;
  if (!has_callback_id_) device.callback_id = other_id;
  return true;
}

bool EventArguments::read_work(const ArgumentText& argument) {
  const JsonValue& value = argument.value;
  switch (argument.key) {
    case ArgumentKey::kStream:
      if (!read_integer(value, device.stream)) return false;
      if (device.stream == kUnsignedMinusOne) device.stream = -1;
      return true;
    case ArgumentKey::kBytes:
      return read_integer(value, device.size_bytes);
    case ArgumentKey::kGraphId:
      return read_integer(value, device.graph_id);
    case ArgumentKey::kGraphNodeId:
      return read_integer(value, device.graph_node_id);
    case ArgumentKey::kWaitCorrelation:
      return read_integer(value, device.wait_correlation);
    case ArgumentKey::kWaitStream:
      return read_integer(value, device.wait_stream);
    case ArgumentKey::kWaitEvent:
      return read_integer(value, device.wait_event);
    case ArgumentKey::kDevice:
      return read_integer(value, device.device);
    case ArgumentKey::kContext:
      return read_integer(value, device.context);
    case ArgumentKey::kGrid:
      return read_dimensions(value, device.grid);
    case ArgumentKey::kBlock:
      return read_dimensions(value, device.block);
    case ArgumentKey::kRegisters:
      return read_integer(value, device.registers);
    case ArgumentKey::kSharedMemory:
      return read_integer(value, device.shared_bytes);
    case ArgumentKey::kBlocksPerSm:
      return read_real(value, device.blocks_per_sm);
    case ArgumentKey::kWarpsPerSm:
      return read_real(value, device.warps_per_sm);
    case ArgumentKey::kOccupancy:
      return read_real(value, device.occupancy_percent);
    case ArgumentKey::kPriority:
      return read_integer(value, device.priority);
    default:
      return false;
  }
}

void collect_other_arguments(const EventText& event, CategoryClass category, std::string& object) {
  object.clear();
  if (category == CategoryClass::kCounters) return;
  for (const ArgumentText& argument : event.argument_list) {
    const ArgumentKey key = argument.key;
    if (key == ArgumentKey::kDropped || is_of_any(key)) continue;
    if (category == CategoryClass::kCall && is_of_call(key)) continue;
    if (category == CategoryClass::kDevice && is_of_work(key)) continue;
    object += object.empty() ? '{' : ',';
    object.append(argument.name).append(":").append(argument.value.text);
  }
  if (!object.empty()) object += '}';
}

}  // namespace torchprof
