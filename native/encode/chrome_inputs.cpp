#include "encode/chrome_inputs.h"

#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/inputs_decoder.h"

namespace torchprof {
namespace {

// c10::ScalarType by value, by the C++ names that torch's profiler writes.
constexpr std::string_view kTypeNames[] = {"unsigned char",
                                           "signed char",
                                           "short int",
                                           "int",
                                           "long int",
                                           "c10::Half",
                                           "float",
                                           "double",
                                           "c10::complex<c10::Half>",
                                           "c10::complex<float>",
                                           "c10::complex<double>",
                                           "bool",
                                           "c10::qint8",
                                           "c10::quint8",
                                           "c10::qint32",
                                           "c10::BFloat16",
                                           "c10::quint4x2",
                                           "c10::quint2x4",
                                           "c10::bits1x8",
                                           "c10::bits2x4",
                                           "c10::bits4x2",
                                           "c10::bits8",
                                           "c10::bits16",
                                           "c10::Float8_e5m2",
                                           "c10::Float8_e4m3fn",
                                           "c10::Float8_e5m2fnuz",
                                           "c10::Float8_e4m3fnuz",
                                           "short unsigned int",
                                           "unsigned int",
                                           "long unsigned int"};

// As Python prints it, whose form readers of traces know: 1.0, 1e-05, inf.
void append_real(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
    return;
  }
  const double magnitude = std::fabs(value);
  const bool is_plain = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  std::array<char, 64> digits;
  const auto format = is_plain ? std::chars_format::fixed : std::chars_format::scientific;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, format).ptr;
  const std::string_view text(digits.data(), static_cast<std::size_t>(end - digits.data()));
  out += text;
  if (is_plain && text.find('.') == std::string_view::npos) out += ".0";
}

void append_array(std::string& out, std::span<const std::int64_t> values) {
  out += '[';
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i != 0) out += ',';
    out += std::to_string(values[i]);
  }
  out += ']';
}

// A list of plain values is one argument: its text gathers here until it ends.
struct PlainList {
  std::string text = "[";
  bool is_first = true;
  bool has_only_scalars = true;

  void next() {
    if (!is_first) text += ", ";
    is_first = false;
  }
};

class ChromeInputsWriter final : public InputsVisitor {
 public:
  void none() override { plain("", "None", false); }

  void tensor(std::uint8_t dtype, std::uint8_t /*device_type*/, std::span<const std::int64_t> sizes,
              std::optional<std::span<const std::int64_t>> strides) override {
    if (!lists_.empty()) {
      plain("", "Tensor", false);
      return;
    }
    next_tensor(in_tensor_list_ ? std::string_view() : type_name(dtype));
    append_array(inputs_.sizes, sizes);
    append_array(inputs_.strides, strides.value_or(std::span<const std::int64_t>()));
    has_strides_ = has_strides_ || strides.has_value();
  }

  void undefined_tensor() override {
    if (in_tensor_list_) {
      next_tensor("");
      inputs_.sizes += "[]";
      inputs_.strides += "[]";
    } else {
      plain("nullptr (uninitialized)", "None", false);
    }
  }

  void nested_tensor(std::uint8_t dtype, std::uint8_t /*device_type*/,
                     std::uint64_t /*dimensions*/) override {
    if (in_tensor_list_) {
      undefined_tensor();
    } else {
      plain("nested " + std::string(type_name(dtype)), "Tensor", false);
    }
  }

  void integer(std::int64_t value) override { plain("Scalar", std::to_string(value), true); }

  void real(double value) override {
    std::string text;
    append_real(text, value);
    plain("Scalar", text, true);
  }

  void boolean(bool value) override { plain("Scalar", value ? "True" : "False", true); }

  void string(std::string_view bytes) override { plain("", bytes, true, false); }

  void complex(double real_part, double imaginary_part) override {
    std::string text = "(";
    append_real(text, real_part);
    text += imaginary_part < 0 || std::signbit(imaginary_part) ? "" : "+";
    append_real(text, imaginary_part);
    plain("Scalar", text + "j)", true);
  }

  void other(std::string_view type_name) override { plain(type_name, type_name, false); }

  void begin_list(InputTag tag, std::uint64_t full_length) override {
    if (lists_.empty() && tag == InputTag::kTensorList) {
      begin_tensor_list();
      return;
    }
    lists_.push_back({});
    full_lengths_.push_back(tag == InputTag::kCutList ? full_length : 0);
  }

  void end_list() override {
    if (in_tensor_list_ && lists_.empty()) {
      inputs_.sizes += ']';
      inputs_.strides += ']';
      in_tensor_list_ = false;
      is_first_ = false;
      return;
    }
    PlainList list = std::move(lists_.back());
    lists_.pop_back();
    if (full_lengths_.back() != 0) {
      list.next();
      list.text += "...";
    }
    full_lengths_.pop_back();
    list.text += ']';
    plain(list.has_only_scalars ? "ScalarList" : "GenericList", list.text, true, list.has_only_scalars);
  }

  ChromeInputs finish() {
    // Damage may have come within a list.
    while (!lists_.empty() || in_tensor_list_) end_list();
    for (std::string* text : {&inputs_.sizes, &inputs_.types, &inputs_.strides, &inputs_.concrete}) {
      *text = '[' + *text + ']';
    }
    if (!has_strides_) inputs_.strides.clear();
    if (!has_values_) inputs_.concrete.clear();
    return std::move(inputs_);
  }

 private:
  static std::string_view type_name(std::uint8_t dtype) {
    return dtype < std::size(kTypeNames) ? kTypeNames[dtype] : std::string_view();
  }

  // An argument without sizes, or an item of a list. `text` is what is printed in a list; by itself an
  // argument prints only when it has a value.
  void plain(std::string_view type, std::string_view text, bool has_value, bool is_scalar = true) {
    if (!lists_.empty()) {
      PlainList& list = lists_.back();
      list.next();
      list.text += text;
      list.has_only_scalars = list.has_only_scalars && has_value && is_scalar;
      return;
    }
    if (in_tensor_list_) {
      undefined_tensor();
      return;
    }
    separate();
    inputs_.sizes += "[]";
    inputs_.strides += "[]";
    inputs_.types += quoted_json(type);
    inputs_.concrete += has_value ? quoted_json(text) : "\"\"";
    has_values_ = has_values_ || has_value;
  }

  void begin_tensor_list() {
    separate();
    inputs_.sizes += '[';
    inputs_.strides += '[';
    inputs_.types += "\"TensorList\"";
    inputs_.concrete += "\"\"";
    in_tensor_list_ = true;
    is_first_ = true;
  }

  void next_tensor(std::string_view type) {
    if (in_tensor_list_) {
      if (!is_first_) {
        inputs_.sizes += ',';
        inputs_.strides += ',';
      }
      is_first_ = false;
      return;
    }
    separate();
    inputs_.types += quoted_json(type);
    inputs_.concrete += "\"\"";
  }

  void separate() {
    if (!is_first_) {
      for (std::string* text : {&inputs_.sizes, &inputs_.types, &inputs_.strides, &inputs_.concrete}) {
        *text += ',';
      }
    }
    is_first_ = false;
  }

  ChromeInputs inputs_;
  std::vector<PlainList> lists_;
  std::vector<std::uint64_t> full_lengths_;
  bool in_tensor_list_ = false;
  bool is_first_ = true;
  bool has_strides_ = false;
  bool has_values_ = false;
};

}  // namespace

ChromeInputs describe_for_chrome(std::span<const std::uint8_t> encoded_inputs) {
  ChromeInputsWriter writer;
  decode_inputs(encoded_inputs, writer);
  return writer.finish();
}

}  // namespace torchprof
