"""The recorded inputs of an op in the forms that torch's events have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from otel_torchprof.recording import InputList, InputValue, TensorInput

# As torch's events name types: by C++ type.
_CPP_TYPES = {
    "uint8": "unsigned char",
    "int8": "signed char",
    "int16": "short int",
    "int32": "int",
    "int64": "long int",
    "uint16": "short unsigned int",
    "uint32": "unsigned int",
    "uint64": "long unsigned int",
    "float32": "float",
    "float64": "double",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "complex32": "c10::complex<c10::Half>",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
    "bool": "bool",
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
    if isinstance(value, InputList) and _holds_tensors(value):
        return [read(item) for item in value.items]
    return []


def _holds_tensors(value: InputList) -> bool:
    return bool(value.items) and all(isinstance(item, TensorInput) for item in value.items)


def _type_name(value: InputValue) -> str:
    if isinstance(value, TensorInput):
        return _CPP_TYPES.get(value.dtype, f"c10::{value.dtype.capitalize()}")
    if isinstance(value, InputList):
        if _holds_tensors(value):
            return "TensorList"
        return "ScalarList" if all(isinstance(item, (bool, int, float)) for item in value.items) else ""
    return "Scalar" if isinstance(value, (bool, int, float)) else ""


def _plain(value: InputValue) -> Any:
    if isinstance(value, InputList):
        return None if _holds_tensors(value) else [_plain(item) for item in value.items]
    return value if isinstance(value, (bool, int, float, str, complex)) else None
