#include "core/shape_ids.h"

#include <string>
#include <unordered_map>

#include "core/inputs_decoder.h"

namespace torchprof {
namespace {

// Writes what distinguishes shapes: how many arguments, which of them are tensors (also within lists), and
// their sizes. Values, dtypes and strides leave no trace.
class ShapeKey final : public InputsVisitor {
 public:
  std::string key;

  void none() override { key += '.'; }
  void tensor(std::uint8_t, std::uint8_t, std::span<const std::int64_t> sizes,
              std::optional<std::span<const std::int64_t>>) override {
    key += 't';
    append(sizes.size());
    for (const std::int64_t size : sizes) append(static_cast<std::uint64_t>(size));
  }
  void undefined_tensor() override { key += '.'; }
  void nested_tensor(std::uint8_t, std::uint8_t, std::uint64_t dimensions) override {
    key += 'n';
    append(dimensions);
  }
  void integer(std::int64_t) override { key += '.'; }
  void real(double) override { key += '.'; }
  void boolean(bool) override { key += '.'; }
  void string(std::string_view) override { key += '.'; }
  void complex(double, double) override { key += '.'; }
  void other(std::string_view) override { key += '.'; }
  void begin_list(InputTag, std::uint64_t) override { list_begins_.push_back(key.size()); }
  void end_list() override {
    const std::size_t begin = list_begins_.back();
    list_begins_.pop_back();
    // A list without tensors is one value, however long.
    if (key.find_first_not_of('.', begin) == std::string::npos) {
      key.resize(begin);
      key += '.';
      return;
    }
    key.insert(begin, 1, '[');
    key += ']';
  }
  void clear() {
    key.clear();
    list_begins_.clear();
  }

 private:
  void append(std::uint64_t number) { key.append(reinterpret_cast<const char*>(&number), sizeof(number)); }

  std::vector<std::size_t> list_begins_;
};

}  // namespace

ShapeIds input_shape_ids(const Recording& recording) {
  ShapeIds shapes;
  shapes.by_row.resize(recording.events.size());
  std::unordered_map<std::string, std::uint32_t> ids;
  ShapeKey visitor;
  for (std::uint64_t row = 0; row < recording.events.size(); ++row) {
    const std::span<const std::uint8_t> inputs = encoded_inputs(recording, row);
    if (inputs.empty()) continue;
    visitor.clear();
    if (!decode_inputs(inputs, visitor)) {
      ++shapes.damaged_inputs;
      continue;
    }
    const auto next_id = static_cast<std::uint32_t>(shapes.example_row.size() + 1);
    const auto [entry, inserted] = ids.try_emplace(visitor.key, next_id);
    if (inserted) shapes.example_row.push_back(row);
    shapes.by_row[row] = entry->second;
  }
  return shapes;
}

}  // namespace torchprof
