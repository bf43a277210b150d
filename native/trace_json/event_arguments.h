// What the arguments of a complete event say.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/layout.h"
#include "trace_json/event_text.h"

namespace torchprof {

// What decides which arguments mean something.
enum class CategoryClass : std::uint8_t {
  kOther = 0,
  kDevice = 1,    // work on a device
  kCall = 2,      // calls to one
  kCounters = 3,  // every argument is a counter
};

[[nodiscard]] DeviceRecord blank_device() noexcept;

struct EventArguments {
  std::int64_t external_id = -1;
  std::int64_t correlation = -1;
  std::int64_t sequence = -1;
  std::uint32_t forward_thread = 0;
  std::uint16_t flags = 0;
  // Texts as they stand there; empty = none.
  std::string_view input_dims;
  std::string_view input_types;
  std::string_view input_strides;
  std::string_view concrete_inputs;
  std::string_view overload_name;
  std::string_view name_bytes;
  std::string_view function;
  DeviceRecord device = blank_device();  // of work and calls; `event` is not set

  // False where an argument that means something has no common shape.
  [[nodiscard]] bool read(const EventText& event, CategoryClass category);

 private:
  [[nodiscard]] bool read_common(const ArgumentText& argument);
  [[nodiscard]] bool read_call(const ArgumentText& argument);
  [[nodiscard]] bool read_work(const ArgumentText& argument);

  std::int64_t old_external_id_ = -1;
  bool has_external_id_ = false;
  bool has_callback_id_ = false;
};

// The arguments that have no place of their own as a JSON object into `object`, which is emptied first and
// stays empty where there are none.
void collect_other_arguments(const EventText& event, CategoryClass category, std::string& object);

}  // namespace torchprof
