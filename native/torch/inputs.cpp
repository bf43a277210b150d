#include "torch/inputs.h"

#include <ATen/core/ivalue_inl.h>
#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/inputs_encoding.h"

namespace torchprof::bridge {
namespace {

using c10::IValue;
using c10::TensorImpl;

constexpr std::size_t kMaxVarintBytes = 10;
// Room in front of the arguments for their count, which is known only after the last one that fits.
constexpr std::size_t kCountBytes = kMaxVarintBytes;

// glibc allocates a library's thread-local block on a thread's first use of it and frees it with the thread,
// so only threads that record inputs pay for the buffer. Trivially destructible: ops may run after
// destructors.
thread_local std::uint8_t scratch[kMaxInputsBytes];

// Appends to a buffer; past its end it only remembers that it overflowed.
class Writer {
 public:
  Writer(std::uint8_t* begin, const std::uint8_t* end, bool with_identities = false)
      : at_(begin), end_(end), with_identities_(with_identities) {}

  [[nodiscard]] bool with_identities() const { return with_identities_; }

  [[nodiscard]] std::uint8_t* position() const { return at_; }
  [[nodiscard]] bool overflowed() const { return overflowed_; }

  void byte(std::uint8_t value) {
    if (has_room(1)) *at_++ = value;
  }

  void tag(InputTag value) { byte(static_cast<std::uint8_t>(value)); }

  void varint(std::uint64_t value) {
    if (!has_room(kMaxVarintBytes)) return;
    while (value >= 0x80) {
      *at_++ = static_cast<std::uint8_t>(value | 0x80);
      value >>= 7;
    }
    *at_++ = static_cast<std::uint8_t>(value);
  }

  void zigzag(std::int64_t value) {
    varint((static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63));
  }

  void float64(double value) { bytes(&value, sizeof value); }

  void address(const void* value) {
    const auto number = reinterpret_cast<std::uintptr_t>(value);
    bytes(&number, sizeof number);
  }

  void string(std::string_view value) {
    const std::string_view kept = value.substr(0, kMaxInputStringBytes);
    varint(kept.size());
    bytes(kept.data(), kept.size());
  }

 private:
  void bytes(const void* data, std::size_t size) {
    if (!has_room(size)) return;
    std::memcpy(at_, data, size);
    at_ += size;
  }

  [[nodiscard]] bool has_room(std::size_t size) {
    overflowed_ = overflowed_ || static_cast<std::size_t>(end_ - at_) < size;
    return !overflowed_;
  }

  std::uint8_t* at_;
  const std::uint8_t* end_;
  bool overflowed_ = false;
  bool with_identities_;
};

// What a TensorImpl stores, without its virtual methods: those of a tensor subclass call Python, those of a
// nested tensor throw. Members are named through a derived class because they are protected.
struct Stored : TensorImpl {
  static bool customizes_sizes(const TensorImpl& impl) {
    return (impl.*&Stored::matches_policy)(SizesStridesPolicy::CustomSizes);
  }
  static bool customizes_strides(const TensorImpl& impl) {
    return (impl.*&Stored::matches_policy)(SizesStridesPolicy::CustomStrides);
  }
  static c10::DeviceType device_type(const TensorImpl& impl) {
    const auto& device = impl.*&Stored::device_opt_;
    return device.has_value() ? device->type() : c10::DeviceType::CPU;
  }
  static c10::DeviceIndex device_index(const TensorImpl& impl) {
    const auto& device = impl.*&Stored::device_opt_;
    return device.has_value() ? device->index() : c10::DeviceIndex{-1};
  }
  static std::int64_t storage_offset(const TensorImpl& impl) { return impl.*&Stored::storage_offset_; }
  static bool requires_grad(const TensorImpl& impl) {
    const c10::AutogradMetaInterface* autograd = impl.autograd_meta();
    return autograd != nullptr && autograd->requires_grad();
  }
};

std::uint8_t dtype_of(const TensorImpl& impl) {
  const caffe2::TypeMeta dtype = impl.dtype();
  return static_cast<std::uint8_t>(dtype.isScalarType() ? dtype.toScalarType() : c10::ScalarType::Undefined);
}

void write_tensor_head(Writer& out, InputTag tag, const TensorImpl& impl, std::size_t dimensions) {
  out.tag(tag);
  out.byte(dtype_of(impl));
  out.byte(static_cast<std::uint8_t>(Stored::device_type(impl)));
  out.varint(dimensions);
}

void write_identity(Writer& out, const TensorImpl& impl) {
  c10::StorageImpl* storage = impl.unsafe_storage().unsafeGetStorageImpl();
  const void* data = nullptr;
  std::int64_t storage_bytes = -1;
  if (storage != nullptr) {
    data = storage->_mutable_data_ptr_no_checks().get();
    const c10::SymInt size = storage->sym_nbytes();
    if (!size.is_heap_allocated()) storage_bytes = size.as_int_unchecked();
  }
  const c10::VariableVersion& version = impl.version_counter();
  out.tag(InputTag::kIdentity);
  out.address(&impl);
  out.address(storage);
  out.address(data);
  out.zigzag(Stored::storage_offset(impl));
  out.zigzag(storage_bytes);
  out.zigzag(version.enabled() ? std::int64_t{version.current_version()} : -1);
  out.zigzag(Stored::device_index(impl));
  out.byte(Stored::requires_grad(impl) ? kTensorRequiresGrad : 0);
}

bool all_plain(c10::SymIntArrayRef values) {
  return std::none_of(values.begin(), values.end(),
                      [](const c10::SymInt& v) { return v.is_heap_allocated(); });
}

void write_tensor(Writer& out, const TensorImpl& impl) {
  if (&impl == static_cast<const TensorImpl*>(c10::UndefinedTensorImpl::singleton())) {
    out.tag(InputTag::kUndefinedTensor);
    return;
  }
  if (out.with_identities()) write_identity(out, impl);
  if (impl.has_symbolic_sizes_strides()) {
    // A symbol knows its value only through Python; sizes that are all numbers can still be told.
    const c10::SymIntArrayRef sizes = impl.sym_sizes_default();
    if (!all_plain(sizes)) return write_tensor_head(out, InputTag::kNestedTensor, impl, sizes.size());
    write_tensor_head(out, InputTag::kTensor, impl, sizes.size());
    for (const c10::SymInt& size : sizes) out.zigzag(size.as_int_unchecked());
    out.byte(0);
    return;
  }
  const c10::IntArrayRef sizes = impl.sizes_default();
  if (Stored::customizes_sizes(impl)) {
    return write_tensor_head(out, InputTag::kNestedTensor, impl, sizes.size());
  }
  write_tensor_head(out, InputTag::kTensor, impl, sizes.size());
  for (const std::int64_t size : sizes) out.zigzag(size);
  // Sparse and opaque layouts customize their strides and store none that mean anything; batched tensors
  // (vmap) do too, but store their own.
  const bool has_strides =
      !Stored::customizes_strides(impl) || impl.key_set().has(c10::DispatchKey::FuncTorchBatched);
  out.byte(has_strides ? 1 : 0);
  if (!has_strides) return;
  for (const std::int64_t stride : impl.strides_default()) out.zigzag(stride);
}

void write_value(Writer& out, const IValue& value, unsigned depth);

// Writes the head of a list and returns how many of its items are to follow.
std::size_t write_list_head(Writer& out, InputTag tag, std::size_t size) {
  if (size <= kMaxInputListItems) {
    out.tag(tag);
    out.varint(size);
    return size;
  }
  out.tag(InputTag::kCutList);
  out.varint(size);
  out.varint(kMaxInputListItems);
  return kMaxInputListItems;
}

void write_items(Writer& out, InputTag tag, c10::ArrayRef<IValue> items, unsigned depth) {
  const std::size_t kept = write_list_head(out, tag, items.size());
  for (const IValue& item : items.slice(0, kept)) write_value(out, item, depth + 1);
}

void write_list(Writer& out, const IValue& list, unsigned depth) {
  const c10::ArrayRef<IValue> items = list.toListRef();
  // The type of an empty list is asked of the list; otherwise its items know, and cheaper.
  const bool of_tensors = items.empty() ? list.isTensorList()
                                        : std::all_of(items.begin(), items.end(),
                                                      [](const IValue& item) { return item.isTensor(); });
  if (!of_tensors) return write_items(out, InputTag::kList, items, depth);
  out.tag(InputTag::kTensorList);
  out.varint(items.size());
  for (const IValue& item : items) write_tensor(out, *item.unsafeToTensorImpl());
}

void write_dict(Writer& out, const c10::Dict<IValue, IValue>& dict, unsigned depth) {
  const std::size_t kept = write_list_head(out, InputTag::kTuple, 2 * dict.size()) / 2;
  std::size_t written = 0;
  for (const auto& entry : dict) {
    if (written++ == kept) break;
    write_value(out, entry.key(), depth + 1);
    write_value(out, entry.value(), depth + 1);
  }
}

void write_value(Writer& out, const IValue& value, unsigned depth) {
  if (value.isTensor()) {
    write_tensor(out, *value.unsafeToTensorImpl());
  } else if (value.isNone()) {
    out.tag(InputTag::kNone);
  } else if (value.isInt()) {
    out.tag(InputTag::kInt);
    out.zigzag(value.toInt());
  } else if (value.isBool()) {
    out.tag(InputTag::kBool);
    out.byte(value.toBool() ? 1 : 0);
  } else if (value.isDouble()) {
    out.tag(InputTag::kDouble);
    out.float64(value.toDouble());
  } else if (value.isComplexDouble()) {
    const c10::complex<double> number = value.toComplexDouble();
    out.tag(InputTag::kComplex);
    out.float64(number.real());
    out.float64(number.imag());
  } else if (value.isString()) {
    out.tag(InputTag::kString);
    out.string(value.toStringRef());
  } else if (value.isDevice()) {
    out.tag(InputTag::kString);
    out.string(value.toDevice().str());
  } else if (value.isList() && depth < kMaxInputDepth) {
    write_list(out, value, depth);
  } else if (value.isTuple() && depth < kMaxInputDepth) {
    write_items(out, InputTag::kTuple, value.toTupleRef().elements().asArrayRef(), depth);
  } else if (value.isGenericDict() && depth < kMaxInputDepth) {
    write_dict(out, value.toGenericDict(), depth);
  } else {
    out.tag(InputTag::kOther);
    out.string(value.tagKind());
  }
}

}  // namespace

EncodedInputs encode_inputs(c10::ArrayRef<const IValue> inputs, bool with_identities) {
  if (inputs.empty()) return {};
  Writer arguments(scratch + kCountBytes, scratch + sizeof scratch, with_identities);
  const std::uint8_t* end = arguments.position();
  std::size_t count = 0;
  for (const IValue& input : inputs) {
    write_value(arguments, input, 0);
    if (arguments.overflowed()) break;
    end = arguments.position();
    ++count;
  }
  std::uint8_t prefix[kCountBytes];
  Writer prefix_writer(prefix, prefix + sizeof prefix);
  prefix_writer.varint(count);
  const auto prefix_bytes = static_cast<std::size_t>(prefix_writer.position() - prefix);
  std::uint8_t* begin = scratch + kCountBytes - prefix_bytes;
  std::memcpy(begin, prefix, prefix_bytes);
  return {.data = begin, .size_bytes = static_cast<std::size_t>(end - begin), .cut = count < inputs.size()};
}

}  // namespace torchprof::bridge
