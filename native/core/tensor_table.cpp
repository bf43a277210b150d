#include "core/tensor_table.h"

#include <optional>

#include "core/inputs_decoder.h"

namespace torchprof {
namespace {

// Appends a row for each identified tensor of the event that it is told of.
class TensorRows final : public InputsVisitor {
 public:
  explicit TensorRows(std::vector<TensorRecord>& rows) : rows_(rows) {}

  void begin_event(std::uint64_t row) {
    event_ = static_cast<std::int64_t>(row);
    argument_ = -1;
    item_ = -1;
    depth_ = 0;
  }

  void none() override { next(); }
  void identity(const TensorIdentity& identity) override { identity_ = identity; }
  void tensor(std::uint8_t dtype, std::uint8_t device_type, std::span<const std::int64_t> sizes,
              std::optional<std::span<const std::int64_t>>) override {
    next();
    std::uint64_t elements = 1;
    for (const std::int64_t size : sizes) elements *= static_cast<std::uint64_t>(size);
    append(dtype, device_type, static_cast<std::int64_t>(elements));
  }
  void undefined_tensor() override { next(); }
  void nested_tensor(std::uint8_t dtype, std::uint8_t device_type, std::uint64_t) override {
    next();
    append(dtype, device_type, -1);
  }
  void integer(std::int64_t) override { next(); }
  void real(double) override { next(); }
  void boolean(bool) override { next(); }
  void string(std::string_view) override { next(); }
  void complex(double, double) override { next(); }
  void other(std::string_view) override { next(); }
  void begin_list(InputTag, std::uint64_t) override {
    next();
    if (++depth_ == 1) item_ = -1;
  }
  void end_list() override { --depth_; }

 private:
  // Lists within a list count as one item of it.
  void next() {
    if (depth_ == 0) {
      ++argument_;
      item_ = -1;
    } else if (depth_ == 1) {
      ++item_;
    }
  }

  void append(std::uint8_t dtype, std::uint8_t device_type, std::int64_t elements) {
    if (!identity_) return;
    rows_.push_back({.event = event_,
                     .tensor = identity_->tensor,
                     .storage = identity_->storage,
                     .address = identity_->data,
                     .storage_offset = identity_->storage_offset,
                     .storage_bytes = identity_->storage_bytes,
                     .version = identity_->version,
                     .elements = elements,
                     .argument = argument_,
                     .item = item_,
                     .device = identity_->device,
                     .device_type = device_type,
                     .dtype = dtype,
                     .flags = identity_->flags,
                     .reserved = 0});
    identity_.reset();
  }

  std::vector<TensorRecord>& rows_;
  std::int64_t event_ = -1;
  std::int32_t argument_ = -1;
  std::int32_t item_ = -1;
  unsigned depth_ = 0;
  std::optional<TensorIdentity> identity_;
};

}  // namespace

TensorTable tensor_table(const Recording& recording) {
  TensorTable table;
  TensorRows visitor(table.rows);
  for (std::uint64_t row = 0; row < recording.events.size(); ++row) {
    const std::span<const std::uint8_t> inputs = encoded_inputs(recording, row);
    if (inputs.empty()) continue;
    const std::size_t rows_before = table.rows.size();
    visitor.begin_event(row);
    if (!decode_inputs(inputs, visitor)) {
      table.rows.resize(rows_before);
      ++table.damaged_inputs;
    }
  }
  return table;
}

}  // namespace torchprof
