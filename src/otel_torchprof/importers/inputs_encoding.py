"""Writes the inputs of an op as native/core/inputs_encoding.h lays them out."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from otel_torchprof.recording import dtype_number

UNKNOWN = 255  # a dtype or a device type that the source does not tell

_NONE, _TENSOR, _UNDEFINED, _INT, _DOUBLE, _BOOL, _STRING = 0, 1, 2, 3, 4, 5, 6
_LIST, _TENSOR_LIST, _CUT_LIST, _OTHER = 8, 9, 10, 12
_MAX_STRING_BYTES = 256
_INT64 = range(-(1 << 63), 1 << 63)


class InputsEncoder:
    """Takes the arguments of an op in order.

    Args:
        count: how many there are.
    """

    def __init__(self, count: int) -> None:
        self._bytes = bytearray()
        self._varint(count)

    def finish(self) -> bytes:
        """The encoded inputs."""
        return bytes(self._bytes)

    def none(self) -> None:
        """An argument that is None."""
        self._bytes.append(_NONE)

    def undefined_tensor(self) -> None:
        """A tensor argument that was left out."""
        self._bytes.append(_UNDEFINED)

    def other(self, type_name: str) -> None:
        """An argument of a type that has no encoding."""
        self._bytes.append(_OTHER)
        self._text(type_name)

    def tensor(self, dtype: int | str, sizes: Sequence[int], strides: Sequence[int] | None) -> None:
        """A tensor; `dtype` is a c10::ScalarType or torch's name of one."""
        if not is_sizes(sizes):
            self.other(str(dtype))
            return
        number = dtype if isinstance(dtype, int) else dtype_number(dtype)
        self._bytes += bytes((_TENSOR, UNKNOWN if number is None else number, UNKNOWN))
        self._varint(len(sizes))
        for size in sizes:
            self._zigzag(size)
        has_strides = strides is not None and is_sizes(strides) and len(strides) == len(sizes)
        self._bytes.append(has_strides)
        if has_strides and strides is not None:
            for stride in strides:
                self._zigzag(stride)

    def value(self, value: object) -> None:
        """A number, a truth value or a text."""
        if isinstance(value, bool):
            self._bytes += bytes((_BOOL, value))
        elif isinstance(value, int) and value in _INT64:
            self._bytes.append(_INT)
            self._zigzag(value)
        elif isinstance(value, float):
            self._bytes.append(_DOUBLE)
            self._bytes += struct.pack("<d", value)
        else:
            self._bytes.append(_STRING)
            self._text(str(value))

    def begin_list(self, count: int, *, is_tensors: bool = False, full_length: int | None = None) -> None:
        """A list of the next `count` arguments, of `full_length` where it was cut."""
        if full_length is not None and full_length > count:
            self._bytes.append(_CUT_LIST)
            self._varint(full_length)
        else:
            self._bytes.append(_TENSOR_LIST if is_tensors else _LIST)
        self._varint(count)

    def _text(self, text: str) -> None:
        data = text.encode("utf-8", "surrogatepass")[:_MAX_STRING_BYTES]
        self._varint(len(data))
        self._bytes += data

    def _varint(self, value: int) -> None:
        while value >= 0x80:
            self._bytes.append(value & 0x7F | 0x80)
            value >>= 7
        self._bytes.append(value)

    def _zigzag(self, value: int) -> None:
        self._varint(value << 1 if value >= 0 else (-value << 1) - 1)


def is_sizes(sizes: object) -> bool:
    """Whether these are the sizes of a tensor: a list of 64-bit integers."""
    return isinstance(sizes, list) and all(size.__class__ is int and size in _INT64 for size in sizes)
