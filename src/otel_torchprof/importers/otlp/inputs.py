"""The inputs of an op, from the four JSON attributes of a span back to the encoding of recordings."""

from __future__ import annotations

from typing import Any

import msgspec

from otel_torchprof import semconv
from otel_torchprof.importers.inputs_encoding import InputsEncoder
from otel_torchprof.importers.otlp.spans import Attributes


def encode_inputs(attributes: Attributes) -> bytes:
    """The encoded inputs; empty where there are none, or where they were cut and cannot be read."""
    shapes, types, strides, values = (
        _json(attributes.get(name))
        for name in (
            semconv.INPUT_SHAPES,
            semconv.INPUT_TYPES,
            semconv.INPUT_STRIDES,
            semconv.INPUT_VALUES,
        )
    )
    if not isinstance(types, list):
        return b""
    encoder = InputsEncoder(len(types))
    for index, type_name in enumerate(types):
        _put(encoder, type_name, _at(shapes, index), _at(strides, index), _at(values, index), 0)
    return encoder.finish()


def _put(encoder: InputsEncoder, type_name: Any, shape: Any, strides: Any, value: Any, depth: int) -> None:
    if isinstance(type_name, list) and depth < 8:
        encoder.begin_list(len(type_name), is_tensors=_are_tensors(shape))
        for index, inner in enumerate(type_name):
            _put(encoder, inner, _at(shape, index), _at(strides, index), _at(value, index), depth + 1)
    elif isinstance(shape, list):
        encoder.tensor(str(type_name), shape, strides if isinstance(strides, list) else None)
    elif type_name == "undefined":
        encoder.undefined_tensor()
    elif type_name in {"int", "bool", "float", "str"} and value is not None:
        encoder.value(float(value) if type_name == "float" else value)
    elif type_name == "None" or not isinstance(type_name, str):
        encoder.none()
    else:
        encoder.other(type_name)


def _are_tensors(shapes: Any) -> bool:
    return isinstance(shapes, list) and bool(shapes) and all(isinstance(shape, list) for shape in shapes)


def _json(text: Any) -> Any:
    if not isinstance(text, str):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None


def _at(items: Any, index: int) -> Any:
    return items[index] if isinstance(items, list) and index < len(items) else None
