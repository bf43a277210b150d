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

// What writes with a pen is inlined into the function that has it.
#define TORCHPROF_WITH_PEN __attribute__((always_inline)) inline

// Writes one value. Always a local object, so that the compiler keeps the position in a register: it may not
// where a byte written could be part of the position itself.
class Pen {
 public:
  explicit Pen(std::uint8_t* at) : at_(at) {}

  [[nodiscard]] std::uint8_t* position() const { return at_; }

  void byte(std::uint8_t value) { *at_++ = value; }

  void tag(InputTag value) { byte(static_cast<std::uint8_t>(value)); }

  void varint(std::uint64_t value) {
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

  void bytes(const void* data, std::size_t size) {
    std::memcpy(at_, data, size);
    at_ += size;
  }

 private:
  std::uint8_t* at_;
};

// A buffer that is appended to. Room is asked for once a value, for the most it may take.
class Writer {
 public:
  Writer(std::uint8_t* begin, const std::uint8_t* end, bool with_identities)
      : at_(begin), end_(end), with_identities_(with_identities) {}

  [[nodiscard]] bool with_identities() const { return with_identities_; }
  [[nodiscard]] std::uint8_t* position() const { return at_; }
  // From the first value that did not fit on, none does.
  [[nodiscard]] bool overflowed() const { return overflowed_; }
  [[nodiscard]] bool has_room(std::size_t size) {
    if (static_cast<std::size_t>(end_ - at_) < size) [[unlikely]]
      overflowed_ = true;
    return !overflowed_;
  }

  [[nodiscard]] Pen pen() const { return Pen(at_); }
  void append(const Pen& written) { at_ = written.position(); }

 private:
  std::uint8_t* at_;
  const std::uint8_t* end_;
  bool overflowed_ = false;
  bool with_identities_;
};

// The most that a value without parts takes: a tag and two numbers.
constexpr std::size_t kMaxScalarBytes = 1 + 2 * kMaxVarintBytes;
constexpr std::size_t kMaxIdentityBytes = 2 + 3 * sizeof(std::uint64_t) + 4 * kMaxVarintBytes;

constexpr std::size_t max_tensor_bytes(std::size_t dimensions) {
  return kMaxIdentityBytes + 4 + (1 + 2 * dimensions) * kMaxVarintBytes;
}

void write_string(Writer& out, InputTag tag, std::string_view value) {
  const std::string_view kept = value.substr(0, kMaxInputStringBytes);
  if (!out.has_room(kMaxScalarBytes + kept.size())) return;
  Pen pen = out.pen();
  pen.tag(tag);
  pen.varint(kept.size());
  pen.bytes(kept.data(), kept.size());
  out.append(pen);
}

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

TORCHPROF_WITH_PEN void write_tensor_head(Pen& pen, InputTag tag, const TensorImpl& impl,
                                          std::size_t dimensions) {
  pen.tag(tag);
  pen.byte(dtype_of(impl));
  pen.byte(static_cast<std::uint8_t>(Stored::device_type(impl)));
  pen.varint(dimensions);
}

TORCHPROF_WITH_PEN void write_identity(Pen& pen, const TensorImpl& impl) {
  c10::StorageImpl* storage = impl.unsafe_storage().unsafeGetStorageImpl();
  const void* data = nullptr;
  std::int64_t storage_bytes = -1;
  if (storage != nullptr) {
    data = storage->_mutable_data_ptr_no_checks().get();
    const c10::SymInt size = storage->sym_nbytes();
    if (!size.is_heap_allocated()) storage_bytes = size.as_int_unchecked();
  }
  const c10::VariableVersion& version = impl.version_counter();
  pen.tag(InputTag::kIdentity);
  pen.address(&impl);
  pen.address(storage);
  pen.address(data);
  pen.zigzag(Stored::storage_offset(impl));
  pen.zigzag(storage_bytes);
  pen.zigzag(version.enabled() ? std::int64_t{version.current_version()} : -1);
  pen.zigzag(Stored::device_index(impl));
  pen.byte(Stored::requires_grad(impl) ? kTensorRequiresGrad : 0);
}

bool all_plain(c10::SymIntArrayRef values) {
  return std::none_of(values.begin(), values.end(),
                      [](const c10::SymInt& v) { return v.is_heap_allocated(); });
}

// Sizes and strides, with room for them.
TORCHPROF_WITH_PEN void write_layout(Pen& pen, const TensorImpl& impl) {
  if (impl.has_symbolic_sizes_strides()) {
    // A symbol knows its value only through Python; sizes that are all numbers can still be told.
    const c10::SymIntArrayRef sizes = impl.sym_sizes_default();
    if (!all_plain(sizes)) return write_tensor_head(pen, InputTag::kNestedTensor, impl, sizes.size());
    write_tensor_head(pen, InputTag::kTensor, impl, sizes.size());
    for (const c10::SymInt& size : sizes) pen.zigzag(size.as_int_unchecked());
    return pen.byte(0);
  }
  const c10::IntArrayRef sizes = impl.sizes_default();
  if (Stored::customizes_sizes(impl)) {
    return write_tensor_head(pen, InputTag::kNestedTensor, impl, sizes.size());
  }
  write_tensor_head(pen, InputTag::kTensor, impl, sizes.size());
  for (const std::int64_t size : sizes) pen.zigzag(size);
  // Sparse and opaque layouts customize their strides and store none that mean anything; batched tensors
  // (vmap) do too, but store their own.
  const bool has_strides =
      !Stored::customizes_strides(impl) || impl.key_set().has(c10::DispatchKey::FuncTorchBatched);
  pen.byte(has_strides ? 1 : 0);
  if (!has_strides) return;
  for (const std::int64_t stride : impl.strides_default()) pen.zigzag(stride);
}

void write_tensor(Writer& out, const TensorImpl& impl) {
  const bool is_undefined = &impl == static_cast<const TensorImpl*>(c10::UndefinedTensorImpl::singleton());
  const std::size_t dimensions = is_undefined                        ? 0
                                 : impl.has_symbolic_sizes_strides() ? impl.sym_sizes_default().size()
                                                                     : impl.sizes_default().size();
  if (!out.has_room(max_tensor_bytes(dimensions))) return;
  Pen pen = out.pen();
  if (is_undefined) {
    pen.tag(InputTag::kUndefinedTensor);
  } else {
    if (out.with_identities()) write_identity(pen, impl);
    write_layout(pen, impl);
  }
  out.append(pen);
}

void write_value(Writer& out, const IValue& value, unsigned depth);

// Writes the head of a list and returns how many of its items are to follow.
std::size_t write_list_head(Writer& out, InputTag tag, std::size_t size) {
  if (!out.has_room(kMaxScalarBytes)) return 0;
  const bool is_cut = size > kMaxInputListItems;
  Pen pen = out.pen();
  pen.tag(is_cut ? InputTag::kCutList : tag);
  pen.varint(size);
  if (is_cut) pen.varint(kMaxInputListItems);
  out.append(pen);
  return is_cut ? kMaxInputListItems : size;
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
  if (!out.has_room(kMaxScalarBytes)) return;
  Pen pen = out.pen();
  pen.tag(InputTag::kTensorList);
  pen.varint(items.size());
  out.append(pen);
  for (const IValue& item : items) {
    write_tensor(out, *item.unsafeToTensorImpl());
    if (out.overflowed()) return;
  }
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

// True when it was one of these.
bool write_scalar(Writer& out, const IValue& value) {
  Pen pen = out.pen();
  if (value.isNone()) {
    pen.tag(InputTag::kNone);
  } else if (value.isInt()) {
    pen.tag(InputTag::kInt);
    pen.zigzag(value.toInt());
  } else if (value.isBool()) {
    pen.tag(InputTag::kBool);
    pen.byte(value.toBool() ? 1 : 0);
  } else if (value.isDouble()) {
    pen.tag(InputTag::kDouble);
    pen.float64(value.toDouble());
  } else if (value.isComplexDouble()) {
    const c10::complex<double> number = value.toComplexDouble();
    pen.tag(InputTag::kComplex);
    pen.float64(number.real());
    pen.float64(number.imag());
  } else {
    return false;
  }
  out.append(pen);
  return true;
}

void write_value(Writer& out, const IValue& value, unsigned depth) {
  if (value.isTensor()) {
    write_tensor(out, *value.unsafeToTensorImpl());
  } else if (!out.has_room(kMaxScalarBytes) || write_scalar(out, value)) {
    // written, or the end of what fits
  } else if (value.isString()) {
    write_string(out, InputTag::kString, value.toStringRef());
  } else if (value.isDevice()) {
    write_string(out, InputTag::kString, value.toDevice().str());
  } else if (value.isList() && depth < kMaxInputDepth) {
    write_list(out, value, depth);
  } else if (value.isTuple() && depth < kMaxInputDepth) {
    write_items(out, InputTag::kTuple, value.toTupleRef().elements().asArrayRef(), depth);
  } else if (value.isGenericDict() && depth < kMaxInputDepth) {
    write_dict(out, value.toGenericDict(), depth);
  } else {
    write_string(out, InputTag::kOther, value.tagKind());
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
  Pen prefix_pen(prefix);
  prefix_pen.varint(count);
  const auto prefix_bytes = static_cast<std::size_t>(prefix_pen.position() - prefix);
  std::uint8_t* begin = scratch + kCountBytes - prefix_bytes;
  std::memcpy(begin, prefix, prefix_bytes);
  return {.data = begin, .size_bytes = static_cast<std::size_t>(end - begin), .cut = count < inputs.size()};
}

}  // namespace torchprof::bridge
