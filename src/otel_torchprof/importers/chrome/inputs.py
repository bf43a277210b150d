"""The inputs of an op, from the four lists Kineto writes to the encoding of docs/recording-format.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from otel_torchprof.importers.chrome.schema import NO_RAW, Arguments
from otel_torchprof.importers.inputs_encoding import UNKNOWN, InputsEncoder, is_sizes
from otel_torchprof.recording import RecordingBuilder

# c10::ScalarType by value, by the names of C++ types that Kineto writes.
_SCALAR_TYPES = {
    "unsigned char": 0, "signed char": 1, "short": 2, "short int": 2, "int": 3, "long": 4, "long int": 4,
    "c10::Half": 5, "float": 6, "double": 7, "c10::complex<c10::Half>": 8, "c10::complex<float>": 9,
    "c10::complex<double>": 10, "bool": 11, "c10::qint8": 12, "c10::quint8": 13, "c10::qint32": 14,
    "c10::BFloat16": 15, "c10::quint4x2": 16, "c10::quint2x4": 17, "c10::bits1x8": 18, "c10::bits2x4": 19,
    "c10::bits4x2": 20, "c10::bits8": 21, "c10::bits16": 22, "c10::Float8_e5m2": 23,
    "c10::Float8_e4m3fn": 24, "c10::Float8_e5m2fnuz": 25, "c10::Float8_e4m3fnuz": 26, "unsigned short": 27,
    "unsigned short int": 27, "unsigned int": 28, "unsigned long": 29, "unsigned long int": 29,
}  # fmt: skip
_MAX_LIST_ITEMS = 64
_MAX_ARGUMENTS = 4096
_INT64 = range(-(1 << 63), 1 << 63)

_LIST_OF = msgspec.json.Decoder(list[Any])

# Sizes, types, strides and plain values as they stand in the trace; empty = not there.
InputTexts = tuple[bytes, ...]


class InputsTable(dict[InputTexts, int]):
    """Payloads by the texts of inputs: most ops of a loop come again with the same, encoded once."""

    def __init__(self, builder: RecordingBuilder) -> None:
        super().__init__()
        self._builder = builder

    def __missing__(self, texts: InputTexts) -> int:
        encoded = encode_inputs(texts)
        self[texts] = payload = self._builder.add_payload(encoded) if encoded else 0
        return payload

    def of(self, arguments: Arguments) -> int:
        """The payload of an event, 0 = none."""
        if arguments.input_types is NO_RAW and arguments.input_dims is NO_RAW:
            return 0
        raws = (
            arguments.input_dims, arguments.input_types, arguments.input_strides, arguments.concrete_inputs,
        )  # fmt: skip
        return self[tuple(b"" if raw is NO_RAW else bytes(raw) for raw in raws)]


def encode_inputs(texts: InputTexts) -> bytes:
    """The encoded inputs; empty when the lists are missing or are no lists.

    Sizes and dtypes are kept for every tensor; strides and plain values where the trace has them.
    """
    dims, types, strides, values = (_items(text) for text in texts)
    count = min(max(len(dims), len(types)), _MAX_ARGUMENTS)
    if count == 0:
        return b""
    encoder = InputsEncoder(count)
    for index in range(count):
        _put_argument(encoder, _at(dims, index), _at(types, index), _at(strides, index), _at(values, index))
    return encoder.finish()


def _items(text: bytes) -> list[Any]:
    if not text:
        return []
    try:
        return _LIST_OF.decode(text)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return []


def _at(items: Sequence[Any], index: int) -> Any:
    return items[index] if index < len(items) else None


def _put_argument(encoder: InputsEncoder, sizes: Any, type_name: Any, strides: Any, value: Any) -> None:
    if isinstance(type_name, str) and type_name in _SCALAR_TYPES and is_sizes(sizes):
        encoder.tensor(_SCALAR_TYPES[type_name], sizes, strides)
    elif isinstance(sizes, list) and sizes and all(is_sizes(item) for item in sizes):
        encoder.begin_list(len(sizes), is_tensors=True)
        for index, item in enumerate(sizes):
            encoder.tensor(UNKNOWN, item, _at(strides, index) if isinstance(strides, list) else None)
    elif isinstance(value, str) and value:
        _put_value(encoder, value, is_list=type_name == "ScalarList")
    elif is_sizes(sizes) and sizes:
        encoder.tensor(UNKNOWN, sizes, strides)
    elif isinstance(type_name, str) and type_name not in {"", "Scalar", "ScalarList", "TensorList"}:
        encoder.other(type_name)
    else:
        encoder.none()


def _put_value(encoder: InputsEncoder, text: str, *, is_list: bool) -> None:
    """A value as Kineto prints it; as text where reading it back would print differently."""
    if is_list and text.startswith("[") and text.endswith("]"):
        items = [item.strip() for item in text[1:-1].split(",")] if text[1:-1].strip() else []
        kept = items[:_MAX_LIST_ITEMS]
        encoder.begin_list(len(kept), full_length=len(items))
        for item in kept:
            _put_value(encoder, item, is_list=False)
    elif text in {"True", "False"}:
        encoder.value(text == "True")
    elif (integer := _integer(text)) is not None:
        encoder.value(integer)
    elif (real := _real(text)) is not None:
        encoder.value(real)
    else:
        encoder.value(text)


def _integer(text: str) -> int | None:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
        return None
    value = int(text)
    return value if value in _INT64 and str(value) == text else None


def _real(text: str) -> float | None:
    if text[:1] not in "-0123456789" or not text.isascii():
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if repr(value) == text else None
