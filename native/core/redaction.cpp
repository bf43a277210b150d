#include "core/redaction.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/inputs_decoder.h"

namespace torchprof {
namespace {

// Refers to texts of the recording, which outlives it.
class Replacements {
 public:
  explicit Replacements(const ReplaceText& replace) : replace_(replace) {}

  std::string_view of(std::string_view text) {
    const auto found = by_text_.find(text);
    return found != by_text_.end() ? found->second : by_text_.emplace(text, replace_(text)).first->second;
  }

 private:
  const ReplaceText& replace_;
  std::unordered_map<std::string_view, std::string> by_text_;
};

constexpr bool is_user_scope(EventKind kind) noexcept {
  return kind == EventKind::kUser || kind == EventKind::kSpan || kind == EventKind::kAnnotation;
}

// An op may bear the name of a user scope: it keeps it.
void redact_names(const Recording& source, Recording& copy, Replacements& replacements) {
  constexpr auto kNotAsked = std::numeric_limits<std::uint32_t>::max();
  std::vector<std::uint32_t> redacted_ids(source.strings.size(), kNotAsked);
  for (std::size_t row = 0; row < source.events.size(); ++row) {
    if (!is_user_scope(static_cast<EventKind>(source.events.kind[row]))) continue;
    const std::uint32_t id = source.events.name[row];
    std::uint32_t& redacted_id = redacted_ids[id];
    if (redacted_id == kNotAsked) {
      const auto replaced = [&](std::string_view text) {
        return text.empty() ? text : replacements.of(text);
      };
      const std::string_view name = replaced(source.strings.name(id));
      const std::string_view overload = replaced(source.strings.overload(id));
      const bool is_same = name == source.strings.name(id) && overload == source.strings.overload(id);
      redacted_id = is_same ? id : copy.strings.add(name, overload);
    }
    copy.events.name[row] = redacted_id;
  }
}

// The strings among the inputs of one event, where they lie.
class InputStrings final : public InputsVisitor {
 public:
  std::vector<std::string_view> texts;

  void string(std::string_view bytes) override { texts.push_back(bytes); }

  void none() override {}
  void tensor(std::uint8_t, std::uint8_t, std::span<const std::int64_t>,
              std::optional<std::span<const std::int64_t>>) override {}
  void undefined_tensor() override {}
  void nested_tensor(std::uint8_t, std::uint8_t, std::uint64_t) override {}
  void integer(std::int64_t) override {}
  void real(double) override {}
  void boolean(bool) override {}
  void complex(double, double) override {}
  void other(std::string_view) override {}
  void begin_list(InputTag, std::uint64_t) override {}
  void end_list() override {}
};

class InputsRedactor {
 public:
  explicit InputsRedactor(Replacements& replacements) : replacements_(replacements) {}

  // The offset in the new payload of what `source` has for an event, 0 = none.
  std::uint64_t copy(const Recording& source, std::uint64_t row) {
    const auto [found, is_new] = offsets_.try_emplace(source.events.payload[row], 0);
    if (!is_new) return found->second;
    const std::size_t begin = payload_->size();
    payload_->resize(begin + kInputsLengthBytes);
    if (!append(encoded_inputs(source, row))) {
      payload_->resize(begin);
      return 0;
    }
    const auto byte_count = static_cast<std::uint32_t>(payload_->size() - begin - kInputsLengthBytes);
    std::memcpy(payload_->data() + begin, &byte_count, sizeof(byte_count));
    return found->second = begin;
  }

  std::shared_ptr<const std::vector<std::uint8_t>> finish() { return std::move(payload_); }

 private:
  // False when the inputs are damaged.
  bool append(std::span<const std::uint8_t> inputs) {
    InputStrings strings;
    if (!decode_inputs(inputs, strings)) return false;
    std::size_t copied = 0;
    for (const std::string_view text : strings.texts) {
      const auto text_begin =
          static_cast<std::size_t>(reinterpret_cast<const std::uint8_t*>(text.data()) - inputs.data());
      const std::size_t length_begin = text_begin - varint_bytes(text.size());
      // Else the length is written in more bytes than it needs, which no recorder does.
      if (inputs[length_begin - 1] != static_cast<std::uint8_t>(InputTag::kString)) return false;
      append_bytes(inputs.subspan(copied, length_begin - copied));
      const std::string_view replaced = replacements_.of(text);
      append_varint(replaced.size());
      append_bytes({reinterpret_cast<const std::uint8_t*>(replaced.data()), replaced.size()});
      copied = text_begin + text.size();
    }
    append_bytes(inputs.subspan(copied));
    return true;
  }

  static std::size_t varint_bytes(std::uint64_t value) noexcept {
    std::size_t bytes = 1;
    while ((value >>= 7U) != 0) ++bytes;
    return bytes;
  }

  void append_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) payload_->push_back(static_cast<std::uint8_t>(value | 0x80U));
    payload_->push_back(static_cast<std::uint8_t>(value));
  }

  void append_bytes(std::span<const std::uint8_t> bytes) {
    payload_->insert(payload_->end(), bytes.begin(), bytes.end());
  }

  Replacements& replacements_;
  // Offset 0 stands for no inputs.
  std::shared_ptr<std::vector<std::uint8_t>> payload_ = std::make_shared<std::vector<std::uint8_t>>(1);
  std::unordered_map<std::uint64_t, std::uint64_t> offsets_;  // from those of the source
};

void redact_inputs(const Recording& source, Recording& copy, Replacements& replacements) {
  InputsRedactor redactor(replacements);
  for (std::uint64_t row = 0; row < source.events.size(); ++row) {
    if (source.events.payload[row] != 0) copy.events.payload[row] = redactor.copy(source, row);
  }
  const std::shared_ptr<const std::vector<std::uint8_t>> payload = redactor.finish();
  copy.payload = *payload;
  copy.payload_owner = payload;
}

}  // namespace

Recording redact(const Recording& recording, const ReplaceText& replace) {
  Recording copy = recording;
  Replacements replacements(replace);
  redact_names(recording, copy, replacements);
  redact_inputs(recording, copy, replacements);
  return copy;
}

}  // namespace torchprof
