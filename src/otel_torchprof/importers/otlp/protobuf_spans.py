"""Spans out of OTLP's protobuf encoding, field by field; unknown fields are stepped over."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, TypeAlias

from otel_torchprof.importers.otlp.spans import Attributes, Link, Span, SpanBatch

# The value of a field: an integer of any wire type, or bytes.
FieldValue: TypeAlias = "int | memoryview"

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_DEPTH = 16
_UINT64 = (1 << 64) - 1


class ProtobufError(ValueError):
    """Bytes that are no protobuf message."""


def batches(message: memoryview) -> Iterator[SpanBatch]:
    """The resources of a TracesData or ExportTraceServiceRequest with their spans.

    Raises:
        ProtobufError: it is neither; what was yielded before stands.
    """
    for number, value in fields(message):
        if number == 1:
            yield _batch(_message(value))


def fields(message: memoryview) -> Iterator[tuple[int, FieldValue]]:
    """Number and value of each field."""
    offset, end = 0, len(message)
    while offset < end:
        key, offset = read_varint(message, offset)
        wire_type = key & 7
        if wire_type == _VARINT:
            value, offset = read_varint(message, offset)
            yield key >> 3, value
            continue
        if wire_type == _BYTES:
            size, offset = read_varint(message, offset)
        elif wire_type in {_FIXED64, _FIXED32}:
            size = 8 if wire_type == _FIXED64 else 4
        else:
            raise ProtobufError(f"wire type {wire_type}")
        if size > end - offset:
            raise ProtobufError("a field runs over its message")
        content = message[offset : offset + size]
        offset += size
        yield key >> 3, content if wire_type == _BYTES else int.from_bytes(content, "little")


def read_varint(message: memoryview, offset: int) -> tuple[int, int]:
    """A varint and the offset behind it."""
    value = shift = 0
    while offset < len(message) and shift < 70:
        byte = message[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _UINT64, offset
        shift += 7
    raise ProtobufError("a varint without end")


def _batch(message: memoryview) -> SpanBatch:
    resource: Attributes = {}
    spans: list[Span] = []
    for number, value in fields(message):
        if number == 1:
            resource = _attributes(_message(value), field_number=1)
        elif number in {2, 1000}:  # ScopeSpans; 1000 is its forerunner, InstrumentationLibrarySpans
            spans += [_span(_message(span)) for inner, span in fields(_message(value)) if inner == 2]
    return SpanBatch(resource, spans)


def _span(message: memoryview) -> Span:
    span = Span()
    for number, value in fields(message):
        if number == 1:
            span.trace_id = bytes(_message(value))
        elif number == 2:
            span.span_id = bytes(_message(value))
        elif number == 4:
            span.parent_id = bytes(_message(value))
        elif number == 5:
            span.name = _text(value)
        elif number == 7:
            span.start_ns = _integer(value)
        elif number == 8:
            span.end_ns = _integer(value)
        elif number == 9:
            _add_attribute(span.attributes, _message(value))
        elif number == 13:
            span.links.append(_link(_message(value)))
        elif number == 16:
            span.flags = _integer(value)
    return span


def _link(message: memoryview) -> Link:
    link = Link(b"", b"", {})
    for number, value in fields(message):
        if number == 1:
            link.trace_id = bytes(_message(value))
        elif number == 2:
            link.span_id = bytes(_message(value))
        elif number == 4:
            _add_attribute(link.attributes, _message(value))
    return link


def _attributes(message: memoryview, *, field_number: int) -> Attributes:
    attributes: Attributes = {}
    for number, value in fields(message):
        if number == field_number:
            _add_attribute(attributes, _message(value))
    return attributes


def _add_attribute(attributes: Attributes, message: memoryview) -> None:
    key, content = "", None
    for number, value in fields(message):
        if number == 1:
            key = _text(value)
        elif number == 2:
            content = _any_value(_message(value), 0)
    attributes[key] = content


def _any_value(message: memoryview, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise ProtobufError("nested too deeply")
    result: Any = None
    for number, value in fields(message):
        if number == 1:
            result = _text(value)
        elif number == 2:
            result = bool(_integer(value))
        elif number == 3:
            result = _integer(value)
            result -= (result >> 63) << 64
        elif number == 4:
            (result,) = struct.unpack("<d", _integer(value).to_bytes(8, "little"))
        elif number == 5:
            result = [
                _any_value(_message(item), depth + 1) for inner, item in fields(_message(value)) if inner == 1
            ]
        elif number == 7:
            result = bytes(_message(value))
    return result


def _message(value: FieldValue) -> memoryview:
    if isinstance(value, int):
        raise ProtobufError("a number where a message should be")
    return value


def _integer(value: FieldValue) -> int:
    if not isinstance(value, int):
        raise ProtobufError("bytes where a number should be")
    return value


def _text(value: FieldValue) -> str:
    return bytes(_message(value)).decode("utf-8", "replace")
