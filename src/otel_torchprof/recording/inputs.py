"""The recorded inputs of one op."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from otel_torchprof.recording.kinds import TensorFlags

# Tags of native/core/inputs_encoding.h, as the first item of the tuples that stand for what has no plain
# Python value.
_TENSOR = 1
_UNDEFINED_TENSOR = 2
_NESTED_TENSOR = 11
_OTHER = 12
_TUPLE = 13

# c10::ScalarType by value, as torch.dtype prints it.
_DTYPES = (
    "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64",
    "complex128", "bool", "qint8", "quint8", "qint32", "bfloat16", "quint4x2", "quint2x4", "bits1x8",
    "bits2x4", "bits4x2", "bits8", "bits16", "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz",
    "float8_e4m3fnuz", "uint16", "uint32", "uint64", "uint1", "uint2", "uint3", "uint4", "uint5", "uint6",
    "uint7", "int1", "int2", "int3", "int4", "int5", "int6", "int7", "float8_e8m0fnu", "float4_e2m1fn_x2",
)  # fmt: skip

# c10::DeviceType by value, as torch.device prints it.
_DEVICE_TYPES = (
    "cpu", "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip", "fpga", "maia", "xla", "vulkan", "metal",
    "xpu", "mps", "meta", "hpu", "ve", "lazy", "ipu", "mtia", "privateuseone",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorIdentity:
    """Which tensor it was, and the memory behind it.

    Addresses are of what may be gone by now: another object may have got the same one later.
    """

    tensor_id: int  # address of the TensorImpl
    storage_id: int  # address of the StorageImpl, 0 = none
    storage_address: int  # of the first byte of the storage, 0 = none
    storage_offset: int  # in elements
    storage_bytes: int | None
    version: int | None  # of the version counter when the op began; None where the tensor keeps none
    device_index: int | None
    requires_grad: bool


@dataclass(frozen=True, slots=True)
class TensorInput:
    """What was recorded of a tensor: nothing of its contents."""

    dtype: str
    device_type: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None  # None for layouts that have none
    identity: TensorIdentity | None = None  # recorded with memory


@dataclass(frozen=True, slots=True)
class UndefinedTensorInput:
    """A tensor argument that was left out."""


@dataclass(frozen=True, slots=True)
class NestedTensorInput:
    """A nested tensor, whose sizes cannot be read."""

    dtype: str
    device_type: str
    dimensions: int
    identity: TensorIdentity | None = None


@dataclass(frozen=True, slots=True)
class OtherInput:
    """An argument of a type that is not recorded."""

    type_name: str


@dataclass(frozen=True, slots=True)
class InputList:
    """A list or tuple argument; only its first items when it was longer than is recorded."""

    items: tuple[InputValue, ...]
    full_length: int
    is_tuple: bool = False

    @property
    def is_cut(self) -> bool:
        """Whether there were more items than are in `items`."""
        return self.full_length > len(self.items)


InputValue: TypeAlias = (
    "TensorInput | UndefinedTensorInput | NestedTensorInput | OtherInput | InputList"
    " | int | float | bool | str | complex | None"
)


def typed_inputs(decoded: Sequence[Any]) -> list[InputValue]:
    """Gives the values that the native decoder returns their types."""
    return [_typed(value) for value in decoded]


def _typed(value: Any) -> InputValue:
    if not isinstance(value, tuple):
        plain: InputValue = value
        return plain
    tag, *fields = value
    if tag == _TENSOR:
        dtype, device_type, sizes, strides, identity = fields
        return TensorInput(
            _name(_DTYPES, dtype), _name(_DEVICE_TYPES, device_type), sizes, strides, _identity(identity)
        )
    if tag == _UNDEFINED_TENSOR:
        return UndefinedTensorInput()
    if tag == _NESTED_TENSOR:
        dtype, device_type, dimensions, identity = fields
        return NestedTensorInput(
            _name(_DTYPES, dtype), _name(_DEVICE_TYPES, device_type), dimensions, _identity(identity)
        )
    if tag == _OTHER:
        return OtherInput(*fields)
    full_length, items = fields
    return InputList(tuple(typed_inputs(items)), full_length, is_tuple=tag == _TUPLE)


def _identity(fields: tuple[int, ...] | None) -> TensorIdentity | None:
    if fields is None:
        return None
    tensor, storage, data, storage_offset, storage_bytes, version, device, flags = fields
    return TensorIdentity(
        tensor,
        storage,
        data,
        storage_offset,
        storage_bytes if storage_bytes >= 0 else None,
        version if version >= 0 else None,
        device if device >= 0 else None,
        bool(flags & TensorFlags.REQUIRES_GRAD),
    )


def dtype_number(name: str) -> int | None:
    """The c10::ScalarType of a name as torch prints it; None for an unknown one."""
    return _DTYPES.index(name) if name in _DTYPES else None


def _name(names: Sequence[str], value: int) -> str:
    return names[value] if value < len(names) else f"unknown {value}"
