#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/inputs_decoder.h"

using namespace torchprof;

namespace {

// Writes what it is shown.
class Transcript final : public InputsVisitor {
 public:
  std::string text;

  void none() override { text += "none "; }
  void identity(const TensorIdentity& tensor) override {
    text += "#" + std::to_string(tensor.tensor) + "," + std::to_string(tensor.storage) + "," +
            std::to_string(tensor.data) + "+" + std::to_string(tensor.storage_offset) + ":" +
            std::to_string(tensor.storage_bytes) + "v" + std::to_string(tensor.version) + "@" +
            std::to_string(tensor.device) + "f" + std::to_string(tensor.flags) + " ";
  }
  void tensor(std::uint8_t dtype, std::uint8_t device_type, std::span<const std::int64_t> sizes,
              std::optional<std::span<const std::int64_t>> strides) override {
    text += "tensor " + std::to_string(dtype) + "@" + std::to_string(device_type) + " ";
    for (const std::int64_t size : sizes) text += std::to_string(size) + ",";
    text += strides ? "/" : "";
    for (const std::int64_t stride : strides.value_or(std::span<const std::int64_t>())) {
      text += std::to_string(stride) + ",";
    }
    text += " ";
  }
  void undefined_tensor() override { text += "undefined "; }
  void nested_tensor(std::uint8_t, std::uint8_t, std::uint64_t dimensions) override {
    text += "nested " + std::to_string(dimensions) + " ";
  }
  void integer(std::int64_t value) override { text += std::to_string(value) + " "; }
  void real(double value) override { text += std::to_string(value) + " "; }
  void boolean(bool value) override { text += value ? "true " : "false "; }
  void string(std::string_view bytes) override { text.append(bytes).append(" "); }
  void complex(double real, double imaginary) override {
    text += std::to_string(real) + "+" + std::to_string(imaginary) + "i ";
  }
  void other(std::string_view type_name) override { text.append("<").append(type_name).append("> "); }
  void begin_list(InputTag, std::uint64_t full_length) override {
    text += "[" + std::to_string(full_length) + ": ";
  }
  void end_list() override { text += "] "; }
};

std::vector<std::uint8_t> every_kind_of_input() {
  return {
      9,                                                // arguments
      0,                                                // none
      1,  6,    1,    2,    8,    3,    1,    6,    2,  // float32 on CUDA, sizes 4 and -2, strides 3 and 1
      2,                                                // undefined
      3,  0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01,  // the smallest integer
      5,  1,                                                           // true
      6,  2,    'h',  'i',                                             //
      9,  2,    11,   6,    0,    3,    1,    6,    0,    0,    0,     // a nested and a scalar tensor
      10, 0xE8, 0x07, 2,    3,    2,    8,    1,    3,    4,  // 1000 items, the first two kept: 1, [2]
      12, 4,    'E',  'n',  'u',  'm',                        //
  };
}

}  // namespace

TEST_CASE("every kind of input is decoded") {
  Transcript transcript;
  CHECK(decode_inputs(every_kind_of_input(), transcript));
  CHECK(transcript.text ==
        "none tensor 6@1 4,-2,/3,1, undefined -9223372036854775808 true hi "
        "[2: nested 3 tensor 6@0  ] [1000: 1 [1: 2 ] ] <Enum> ");
}

TEST_CASE("no cut-off encoding is taken for a whole one") {
  const std::vector<std::uint8_t> whole = every_kind_of_input();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    Transcript transcript;
    CHECK_FALSE(decode_inputs(std::span(whole).first(size), transcript));
  }
}

TEST_CASE("damaged inputs are refused") {
  const auto refused = [](const std::vector<std::uint8_t>& bytes) {
    Transcript transcript;
    return !decode_inputs(bytes, transcript);
  };
  CHECK(refused({1, 99}));  // no such tag
  CHECK(refused({0, 0}));   // bytes left over
  CHECK(
      refused({1, 1, 6, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01}));  // 2^64 dimensions
  CHECK(refused({1, 3, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F}));      // over 64 bits
  std::vector<std::uint8_t> too_deep = {1};
  for (unsigned depth = 0; depth <= kMaxInputDepth; ++depth) too_deep.insert(too_deep.end(), {8, 1});
  too_deep.push_back(0);
  CHECK(refused(too_deep));
}

namespace {

// An identity: addresses 1, 2 and 3, offset 4, 64 bytes, version -1, device -1, requires a gradient.
std::vector<std::uint8_t> identity() {
  std::vector<std::uint8_t> bytes = {14};
  for (const std::uint8_t address : {1, 2, 3}) {
    bytes.push_back(address);
    bytes.insert(bytes.end(), 7, 0);
  }
  bytes.insert(bytes.end(), {8, 0x80, 0x01, 1, 1, 1});
  return bytes;
}

std::vector<std::uint8_t> one_argument(const std::vector<std::uint8_t>& argument) {
  std::vector<std::uint8_t> bytes = {1};
  bytes.insert(bytes.end(), argument.begin(), argument.end());
  return bytes;
}

}  // namespace

TEST_CASE("an identity comes before the tensor it is of, and before nothing else") {
  const auto with = [](std::initializer_list<std::uint8_t> tensor) {
    std::vector<std::uint8_t> argument = identity();
    argument.insert(argument.end(), tensor);
    return one_argument(argument);
  };
  Transcript transcript;
  CHECK(decode_inputs(with({1, 6, 1, 1, 4, 0}), transcript));
  CHECK(transcript.text == "#1,2,3+4:64v-1@-1f1 tensor 6@1 2, ");
  Transcript nested;
  CHECK(decode_inputs(with({11, 6, 1, 2}), nested));
  CHECK(nested.text == "#1,2,3+4:64v-1@-1f1 nested 2 ");
  Transcript refused;
  CHECK_FALSE(decode_inputs(with({0}), refused));
  CHECK_FALSE(decode_inputs(with({14}), refused));
  const std::vector<std::uint8_t> whole = with({1, 6, 1, 1, 4, 0});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK_FALSE(decode_inputs(std::span(whole).first(size), refused));
  }
}
