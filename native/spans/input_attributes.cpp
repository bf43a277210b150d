#include "spans/input_attributes.h"

#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>

#include "core/inputs_decoder.h"
#include "spans/utf8.h"

namespace torchprof {
namespace {

// c10::ScalarType by value, under torch's Python names.
constexpr std::string_view kDtypeNames[] = {"uint8",
                                            "int8",
                                            "int16",
                                            "int32",
                                            "int64",
                                            "float16",
                                            "float32",
                                            "float64",
                                            "complex32",
                                            "complex64",
                                            "complex128",
                                            "bool",
                                            "qint8",
                                            "quint8",
                                            "qint32",
                                            "bfloat16",
                                            "quint4x2",
                                            "quint2x4",
                                            "bits1x8",
                                            "bits2x4",
                                            "bits4x2",
                                            "bits8",
                                            "bits16",
                                            "float8_e5m2",
                                            "float8_e4m3fn",
                                            "float8_e5m2fnuz",
                                            "float8_e4m3fnuz",
                                            "uint16",
                                            "uint32",
                                            "uint64",
                                            "uint1",
                                            "uint2",
                                            "uint3",
                                            "uint4",
                                            "uint5",
                                            "uint6",
                                            "uint7",
                                            "int1",
                                            "int2",
                                            "int3",
                                            "int4",
                                            "int5",
                                            "int6",
                                            "int7",
                                            "float8_e8m0fnu",
                                            "float4_e2m1fn_x2"};

void append_number(std::string& out, std::int64_t value) { out += std::to_string(value); }

// JSON has no NaN and no infinities: those become strings.
void append_number(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += std::isnan(value) ? "\"nan\"" : value > 0 ? "\"inf\"" : "\"-inf\"";
    return;
  }
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

void append_json_string(std::string& out, std::string_view bytes) {
  out += '"';
  for (const char c : clean_utf8(bytes)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  out += '"';
}

void append_array(std::string& out, std::span<const std::int64_t> values) {
  out += '[';
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i != 0) out += ',';
    append_number(out, values[i]);
  }
  out += ']';
}

// Writes the four arrays side by side, so that item n of each is argument n.
class InputsWriter final : public InputsVisitor {
 public:
  void none() override { item("null", "\"None\"", "null", "null"); }

  void tensor(std::uint8_t dtype, std::uint8_t /*device_type*/, std::span<const std::int64_t> sizes,
              std::optional<std::span<const std::int64_t>> strides) override {
    next();
    append_array(texts_.shapes, sizes);
    append_json_string(texts_.types, dtype_name(dtype));
    if (strides) {
      append_array(texts_.strides, *strides);
      has_strides_ = true;
    } else {
      texts_.strides += "null";
    }
    texts_.values += "null";
  }

  void undefined_tensor() override { item("null", "\"undefined\"", "null", "null"); }

  void nested_tensor(std::uint8_t dtype, std::uint8_t /*device_type*/,
                     std::uint64_t /*dimensions*/) override {
    next();
    texts_.shapes += "null";
    append_json_string(texts_.types, "nested " + dtype_name(dtype));
    texts_.strides += "null";
    texts_.values += "null";
  }

  void integer(std::int64_t value) override {
    value_item("\"int\"");
    append_number(texts_.values, value);
  }

  void real(double value) override {
    value_item("\"float\"");
    append_number(texts_.values, value);
  }

  void boolean(bool value) override {
    value_item("\"bool\"");
    texts_.values += value ? "true" : "false";
  }

  void string(std::string_view bytes) override {
    value_item("\"str\"");
    append_json_string(texts_.values, bytes);
  }

  void complex(double real, double imaginary) override {
    value_item("\"complex\"");
    texts_.values += '[';
    append_number(texts_.values, real);
    texts_.values += ',';
    append_number(texts_.values, imaginary);
    texts_.values += ']';
  }

  void other(std::string_view type_name) override {
    next();
    texts_.shapes += "null";
    append_json_string(texts_.types, type_name);
    texts_.strides += "null";
    texts_.values += "null";
  }

  void begin_list(InputTag tag, std::uint64_t /*full_length*/) override {
    if (tag == InputTag::kCutList) texts_.cut = true;
    next();
    each([](std::string& text) { text += '['; });
    first_ = true;
  }

  void end_list() override {
    each([](std::string& text) { text += ']'; });
    first_ = false;
  }

  InputTexts finish() {
    each([](std::string& text) { text = '[' + text + ']'; });
    if (!has_strides_) texts_.strides.clear();
    if (!has_values_) texts_.values.clear();
    each([this](std::string& text) {
      if (text.size() <= kMaxValueBytes) return;
      text = cut_to_bytes(text, kMaxValueBytes);
      texts_.cut = true;
    });
    return std::move(texts_);
  }

 private:
  template <class Function>
  void each(Function function) {
    for (std::string* text : {&texts_.shapes, &texts_.types, &texts_.strides, &texts_.values})
      function(*text);
  }

  void next() {
    if (!first_) each([](std::string& text) { text += ','; });
    first_ = false;
  }

  void item(std::string_view shape, std::string_view type, std::string_view strides, std::string_view value) {
    next();
    texts_.shapes += shape;
    texts_.types += type;
    texts_.strides += strides;
    texts_.values += value;
  }

  void value_item(std::string_view type) {
    item("null", type, "null", "");
    has_values_ = true;
  }

  InputTexts texts_;
  bool first_ = true;
  bool has_strides_ = false;
  bool has_values_ = false;
};

}  // namespace

std::string dtype_name(std::uint8_t dtype) {
  return dtype < std::size(kDtypeNames) ? std::string(kDtypeNames[dtype]) : "dtype" + std::to_string(dtype);
}

InputTexts describe_inputs(const Recording& recording, std::uint64_t row) {
  const std::span<const std::uint8_t> bytes = encoded_inputs(recording, row);
  if (bytes.empty()) return {};
  InputsWriter writer;
  const bool intact = decode_inputs(bytes, writer);
  InputTexts texts = writer.finish();
  texts.cut = texts.cut || !intact || (recording.events.flags[row] & kFlagPayloadCut) != 0;
  return texts;
}

}  // namespace torchprof
