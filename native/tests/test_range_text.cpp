// What ops are called in the ranges that other tools draw.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/inputs_encoding.h"
#include "core/range_text.h"

using namespace torchprof;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::uint8_t kFloat = 6;
constexpr std::uint8_t kBackward = 1;

std::uint8_t tag(InputTag tag) { return static_cast<std::uint8_t>(tag); }

torchprof_op_start op(const char* name, std::int64_t sequence = -1, std::uint8_t scope = 0) {
  torchprof_op_start start{};
  start.name = name;
  start.sequence = sequence;
  start.scope = scope;
  return start;
}

std::string with_inputs(const std::vector<std::uint8_t>& inputs) {
  torchprof_op_start start = op("op");
  start.inputs = inputs.data();
  start.inputs_bytes = inputs.size();
  return range_text(start);
}

}  // namespace

TEST_CASE("a number is that of the op, in a backward pass that of the op before") {
  CHECK(range_text(op("aten::mm")) == "aten::mm");
  CHECK(range_text(op("aten::mm", 3)) == "aten::mm, seq = 3");
  CHECK(range_text(op("MmBackward0", 3, kBackward)) == "MmBackward0, stashed seq = 3");
}

TEST_CASE("sizes are those of tensors, of lists of tensors one by one") {
  CHECK(with_inputs({0}) == "op, sizes = []");
  CHECK(with_inputs({2, tag(InputTag::kTensor), kFloat, 0, 2, 4, 6, 0, tag(InputTag::kInt), 2}) ==
        "op, sizes = [[2, 3], []]");
  CHECK(with_inputs({1, tag(InputTag::kTensorList), 2, tag(InputTag::kTensor), kFloat, 0, 1, 4, 0,
                     tag(InputTag::kUndefinedTensor)}) == "op, sizes = [[2], []]");
  CHECK(with_inputs({2, tag(InputTag::kList), 2, tag(InputTag::kInt), 2, tag(InputTag::kList), 1,
                     tag(InputTag::kBool), 1, tag(InputTag::kTensor), kFloat, 0, 0, 0}) ==
        "op, sizes = [[], []]");
  CHECK(with_inputs({3, tag(InputTag::kNone), tag(InputTag::kString), 1, 'x', tag(InputTag::kNone)}) ==
        "op, sizes = [[], [], []]");
}

TEST_CASE("what is damaged shows what came before") {
  CHECK(with_inputs({2, tag(InputTag::kTensor), kFloat, 0, 1, 4, 0, 0xEE}) == "op, sizes = [[2]]");
}
