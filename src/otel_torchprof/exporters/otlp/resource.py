"""An encoded OTLP `Resource`, of text and integers; this layer knows no OpenTelemetry package."""

from __future__ import annotations

from collections.abc import Mapping

# Tags of protobuf: field number and wire type.
_RESOURCE_ATTRIBUTES = 0x0A  # Resource.attributes = 1
_KEY = 0x0A  # KeyValue.key = 1
_VALUE = 0x12  # KeyValue.value = 2
_STRING_VALUE = 0x0A  # AnyValue.string_value = 1
_INT_VALUE = 0x18  # AnyValue.int_value = 3


def encode_resource(attributes: Mapping[str, str | int]) -> bytes:
    """The attributes as an `opentelemetry.proto.resource.v1.Resource`; integers from 0 to 2**63 - 1."""
    return b"".join(
        _field(_RESOURCE_ATTRIBUTES, _field(_KEY, _utf8(key)) + _field(_VALUE, _any_value(value)))
        for key, value in attributes.items()
    )


def _any_value(value: str | int) -> bytes:
    if isinstance(value, int):
        return bytes((_INT_VALUE,)) + _varint(value)
    return _field(_STRING_VALUE, _utf8(value))


def _field(tag: int, content: bytes) -> bytes:
    return bytes((tag,)) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")
