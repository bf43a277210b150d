// Names of spans: few distinct ones, short, valid UTF-8. What an event was called stays in an attribute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/recording.h"

namespace torchprof {

inline constexpr std::size_t kMaxSpanNameCharacters = 255;
inline constexpr std::string_view kStepSpanName = "torch.step";
inline constexpr std::string_view kCaptureSpanName = "torch.capture";

struct SpanName {
  std::string text;
  std::string original;  // clean UTF-8 within kMaxValueBytes; empty when `text` says it all
  std::optional<std::int64_t> step_number;  // of ProfilerStep#N
};

// Ops, user spans, runtime calls: `ProfilerStep#12` -> `torch.step`, compile ids and hashes stripped.
[[nodiscard]] SpanName host_span_name(std::string_view recorded);
// Kernels as kernel_name() has them; copies without what follows the direction: `Memcpy HtoD (Pageable ->
// Device)`
// -> `Memcpy HtoD`.
[[nodiscard]] SpanName device_span_name(std::string_view recorded, EventKind kind);

// The names of one plan, each worked out once. Different recorded names may share a text.
class SpanNames {
 public:
  explicit SpanNames(const StringPool& strings) : strings_(strings) {}

  // `index` of the name of an event with string id `string` and kind `kind`.
  std::uint32_t index_of(std::uint32_t string, EventKind kind);
  std::uint32_t add(SpanName name);

  [[nodiscard]] const SpanName& operator[](std::uint32_t index) const { return names_[index]; }
  // Equal for names with equal texts: what aggregates by name goes by.
  [[nodiscard]] std::uint32_t text_id(std::uint32_t index) const { return text_ids_[index]; }
  // The text of a text id.
  [[nodiscard]] std::string_view text(std::uint32_t text_id) const { return names_[text_id].text; }

 private:
  const StringPool& strings_;
  std::vector<SpanName> names_;
  std::vector<std::uint32_t> text_ids_;
  std::unordered_map<std::string, std::uint32_t> by_text_;
  std::unordered_map<std::uint64_t, std::uint32_t> by_string_;
};

}  // namespace torchprof
