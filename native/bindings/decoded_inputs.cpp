#include "bindings/decoded_inputs.h"

#include <stdexcept>
#include <utility>
#include <vector>

#include "bindings/python_values.h"
#include "core/inputs_decoder.h"

namespace nb = nanobind;

namespace torchprof::bindings {
namespace {

nb::tuple integers(std::span<const std::int64_t> values) {
  nb::list list;
  for (const std::int64_t value : values) list.append(value);
  return nb::tuple(list);
}

template <typename... Fields>
nb::tuple tagged(InputTag tag, Fields&&... fields) {
  return nb::make_tuple(static_cast<std::uint8_t>(tag), std::forward<Fields>(fields)...);
}

class PythonValues final : public InputsVisitor {
 public:
  void none() override { add(nb::none()); }
  void identity(const TensorIdentity& tensor) override {
    identity_ = nb::make_tuple(tensor.tensor, tensor.storage, tensor.data, tensor.storage_offset,
                               tensor.storage_bytes, tensor.version, tensor.device, tensor.flags);
  }
  void tensor(std::uint8_t dtype, std::uint8_t device_type, std::span<const std::int64_t> sizes,
              std::optional<std::span<const std::int64_t>> strides) override {
    const nb::object stride_values = strides ? nb::object(integers(*strides)) : nb::object(nb::none());
    add(tagged(InputTag::kTensor, dtype, device_type, integers(sizes), stride_values, take_identity()));
  }
  void undefined_tensor() override { add(tagged(InputTag::kUndefinedTensor)); }
  void nested_tensor(std::uint8_t dtype, std::uint8_t device_type, std::uint64_t dimensions) override {
    add(tagged(InputTag::kNestedTensor, dtype, device_type, dimensions, take_identity()));
  }
  void integer(std::int64_t value) override { add(nb::int_(value)); }
  void real(double value) override { add(nb::float_(value)); }
  void boolean(bool value) override { add(nb::bool_(value)); }
  void string(std::string_view bytes) override { add(text(bytes)); }
  void complex(double real, double imaginary) override {
    add(nb::steal(PyComplex_FromDoubles(real, imaginary)));
  }
  void other(std::string_view type_name) override { add(tagged(InputTag::kOther, text(type_name))); }
  void begin_list(InputTag tag, std::uint64_t full_length) override {
    open_lists_.push_back({tag, full_length, std::exchange(current_, nb::list())});
  }
  void end_list() override {
    const nb::list items = std::exchange(current_, open_lists_.back().outer);
    const nb::tuple value = tagged(open_lists_.back().tag, open_lists_.back().full_length, items);
    open_lists_.pop_back();
    add(value);
  }

  nb::list take() { return current_; }

 private:
  struct OpenList {
    InputTag tag;
    std::uint64_t full_length;
    nb::list outer;
  };

  void add(const nb::object& value) { current_.append(value); }

  nb::object take_identity() { return std::exchange(identity_, nb::none()); }

  nb::list current_;
  nb::object identity_ = nb::none();
  std::vector<OpenList> open_lists_;
};

}  // namespace

nb::list decoded_inputs(std::span<const std::uint8_t> encoded) {
  PythonValues values;
  if (!decode_inputs(encoded, values)) throw std::invalid_argument("damaged inputs");
  return values.take();
}

}  // namespace torchprof::bindings
