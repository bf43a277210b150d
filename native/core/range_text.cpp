#include "core/range_text.h"

#include <cstdint>
#include <span>

#include "core/inputs_decoder.h"

namespace torchprof {
namespace {

constexpr std::uint8_t kBackwardFunction = 1;  // at::RecordScope::BACKWARD_FUNCTION

class SizesText : public InputsVisitor {
 public:
  [[nodiscard]] std::string take() { return "[" + text_ + "]"; }

  void none() override { add("[]"); }
  void tensor(std::uint8_t, std::uint8_t, std::span<const std::int64_t> sizes,
              std::optional<std::span<const std::int64_t>>) override {
    std::string text;
    for (const std::int64_t size : sizes) {
      text += (text.empty() ? "" : ", ") + std::to_string(size);
    }
    add("[" + text + "]");
  }
  void undefined_tensor() override { add("[]"); }
  void nested_tensor(std::uint8_t, std::uint8_t, std::uint64_t) override { add("[]"); }
  void integer(std::int64_t) override { add("[]"); }
  void real(double) override { add("[]"); }
  void boolean(bool) override { add("[]"); }
  void string(std::string_view) override { add("[]"); }
  void complex(double, double) override { add("[]"); }
  void other(std::string_view) override { add("[]"); }
  void begin_list(InputTag tag, std::uint64_t) override {
    if (tag != InputTag::kTensorList || depth_ > 0) {
      if (depth_ == 0) add("[]");
      ++depth_;
    } else {
      in_tensors_ = true;
    }
  }
  void end_list() override {
    if (in_tensors_) {
      in_tensors_ = false;
    } else {
      --depth_;
    }
  }

 private:
  void add(const std::string& sizes) {
    if (depth_ == 0) text_ += (text_.empty() ? "" : ", ") + sizes;
  }

  std::string text_;
  unsigned depth_ = 0;  // inside lists of anything but tensors
  bool in_tensors_ = false;
};

}  // namespace

std::string range_text(const torchprof_op_start& op) {
  std::string text = op.name;
  if (op.sequence >= 0) {
    text += op.scope == kBackwardFunction ? ", stashed seq = " : ", seq = ";
    text += std::to_string(op.sequence);
  }
  if (op.inputs != nullptr) {
    SizesText sizes;
    decode_inputs({op.inputs, op.inputs_bytes}, sizes);
    text += ", sizes = " + sizes.take();
  }
  return text;
}

}  // namespace torchprof
