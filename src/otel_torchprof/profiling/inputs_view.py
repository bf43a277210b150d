"""The recorded inputs of an op in the forms that torch's events have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from otel_torchprof.recording import InputList, InputValue, TensorInput

# As torch's events name types: by C++ type.
_CPP_TYPES = {
    "uint8": "unsigned char",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long",
    "float16": "c10::Half",
    "float32": "float",
    "float64": "double",
    "complex32": "c10::complex<c10::Half>",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
    "bool": "bool",
    "bfloat16": "c10::BFloat16",
    "qint8": "c10::qint8",
    "quint8": "c10::quint8",
    "qint32": "c10::qint32",
}


class InputsView:
    """Inputs in order, one entry each; what is no tensor is empty where only tensors have a value."""

    def __init__(self, values: Sequence[InputValue]) -> None:
        self.values = values

    @property
    def shapes(self) -> list[list[int]]:
        """Sizes of tensors; lists of tensors are empty."""
        return [list(value.sizes) if isinstance(value, TensorInput) else [] for value in self.values]

    @property
    def structured_shapes(self) -> list[Any]:
        """Sizes of tensors, and of each tensor of a list."""
        return [_each(value, lambda tensor: list(tensor.sizes)) for value in self.values]

    @property
    def structured_strides(self) -> list[Any]:
        """Strides of tensors, and of each tensor of a list."""
        return [_each(value, lambda tensor: list(tensor.strides or ())) for value in self.values]

    @property
    def dtypes(self) -> list[str]:
        """Types of tensors, `Scalar` and `ScalarList` of numbers, else nothing."""
        return [_type_name(value) for value in self.values]

    @property
    def concrete(self) -> list[Any]:
        """Values of what is no tensor; None where a tensor stands."""
        return [_plain(value) for value in self.values]


def _each(value: InputValue, read: Any) -> Any:
    if isinstance(value, TensorInput):
        return read(value)
    if isinstance(value, InputList) and value.items and all(isinstance(i, TensorInput) for i in value.items):
        return [read(item) for item in value.items]
    return []


def _type_name(value: InputValue) -> str:
    if isinstance(value, TensorInput):
        return _CPP_TYPES.get(value.dtype, value.dtype)
    if isinstance(value, InputList):
        if value.items and all(isinstance(item, TensorInput) for item in value.items):
            return "TensorList"
        is_numbers = all(isinstance(item, (bool, int, float)) for item in value.items)
        return "ScalarList" if is_numbers and value.items else ""
    return "Scalar" if isinstance(value, (bool, int, float)) else ""


def _plain(value: InputValue) -> Any:
    if isinstance(value, InputList):
        return [_plain(item) for item in value.items]
    return value if isinstance(value, (bool, int, float, str, complex)) else None
