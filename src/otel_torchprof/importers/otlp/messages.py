"""Finds out how a file of OTLP messages is encoded, and cuts it into messages."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import msgspec

from otel_torchprof.importers.otlp import json_spans, protobuf_spans
from otel_torchprof.importers.otlp.protobuf_spans import ProtobufError, read_varint
from otel_torchprof.importers.otlp.spans import SpanBatch
from otel_torchprof.importers.report import ImportReport

_LENGTH_BYTES = 4
# Tags of bytes fields 1 and 2, and what every span begins with: 16 bytes of trace id in field 1.
_FIELD_1 = 0x0A
_FIELD_2 = 0x12
_SPAN_BEGIN = b"\x0a\x10"


class Encoding(Enum):
    """How the messages of a file are written."""

    NONE = "no OTLP traces"
    JSON = "JSON"
    PROTOBUF = "protobuf"
    LENGTH_PREFIXED = "protobuf, each message with its length in front"


def encoding_of(head: bytes) -> Encoding:
    """The encoding of a file that begins like this."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"{"):
        is_otlp = b'"resourceSpans"' in head or b'"resource_spans"' in head
        return Encoding.JSON if is_otlp and b'"traceEvents"' not in head else Encoding.NONE
    if _begins_with_spans(memoryview(head)):
        return Encoding.PROTOBUF
    if len(head) > _LENGTH_BYTES and _begins_with_spans(memoryview(head)[_LENGTH_BYTES:]):
        return Encoding.LENGTH_PREFIXED
    return Encoding.NONE


def read_batches(content: bytearray, encoding: Encoding, report: ImportReport) -> Iterator[SpanBatch]:
    """The spans of all messages; a message that is damaged is counted, and read as far as it goes."""
    if encoding is Encoding.JSON:
        yield from _json_batches(content, report)
        return
    view = memoryview(content)
    messages = iter([view]) if encoding is Encoding.PROTOBUF else _length_prefixed(view, report)
    for message in messages:
        try:
            yield from protobuf_spans.batches(message)
        except (ProtobufError, RecursionError):
            report.add_problem("malformed_message")


def _begins_with_spans(message: memoryview) -> bool:
    """Whether it begins TracesData, ResourceSpans, (Resource,) ScopeSpans, (InstrumentationScope,) Span."""
    try:
        offset = _enter(message, 0, _FIELD_1)
        for _level in ("resource", "scope"):
            if message[offset] == _FIELD_1:
                size, content = read_varint(message, offset + 1)
                offset = content + size
            offset = _enter(message, offset, _FIELD_2)
        return bytes(message[offset : offset + 2]) == _SPAN_BEGIN
    except (ProtobufError, IndexError):
        return False


def _enter(message: memoryview, offset: int, tag: int) -> int:
    if message[offset] != tag:
        raise ProtobufError("another field")
    _size, content = read_varint(message, offset + 1)
    return content


def _length_prefixed(content: memoryview, report: ImportReport) -> Iterator[memoryview]:
    """The Collector's file exporter writes the length as four bytes, the highest first."""
    offset = 0
    while offset < len(content):
        begin = offset + _LENGTH_BYTES
        offset = begin + int.from_bytes(content[offset:begin], "big")
        if offset > len(content):
            report.add_problem("last_message_cut_off")
        yield content[begin:offset]


def _json_batches(content: bytearray, report: ImportReport) -> Iterator[SpanBatch]:
    """One message, or one on each line."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    decode = msgspec.json.decode
    try:
        messages = [decode(content)]
    except (msgspec.MsgspecError, RecursionError, ValueError):
        messages = []
    if messages:
        yield from json_spans.batches(messages[0])
        return
    for line in content.splitlines():
        if not line.strip():
            continue
        try:
            message = decode(line)
        except (msgspec.MsgspecError, RecursionError, ValueError):
            report.add_problem("malformed_message")
            continue
        yield from json_spans.batches(message)
