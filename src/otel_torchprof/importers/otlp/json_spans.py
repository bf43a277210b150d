"""Spans out of OTLP's JSON encoding: ids in hexadecimal, 64-bit integers as text or numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from otel_torchprof.importers.numbers import to_int
from otel_torchprof.importers.otlp.spans import Attributes, Link, Span, SpanBatch

_UINT64 = (1 << 64) - 1
_MAX_DEPTH = 16


def batches(message: Any) -> Iterator[SpanBatch]:
    """The resources of a decoded message with their spans; what is not as it should be is left out."""
    for resource_spans in _objects(message, "resourceSpans", "resource_spans"):
        resource = _attributes(_member(resource_spans, "resource"))
        spans = [
            _span(span)
            for scope in _objects(resource_spans, "scopeSpans", "scope_spans", "instrumentationLibrarySpans")
            for span in _objects(scope, "spans")
        ]
        yield SpanBatch(resource, spans)


def _span(value: dict[str, Any]) -> Span:
    return Span(
        trace_id=_id(_member(value, "traceId", "trace_id")),
        span_id=_id(_member(value, "spanId", "span_id")),
        parent_id=_id(_member(value, "parentSpanId", "parent_span_id")),
        name=str(value.get("name") or ""),
        start_ns=to_int(_member(value, "startTimeUnixNano", "start_time_unix_nano"), 0, 0, _UINT64),
        end_ns=to_int(_member(value, "endTimeUnixNano", "end_time_unix_nano"), 0, 0, _UINT64),
        flags=to_int(value.get("flags"), 0),
        attributes=_attributes(value),
        links=[
            Link(
                _id(_member(link, "traceId", "trace_id")),
                _id(_member(link, "spanId", "span_id")),
                _attributes(link),
            )
            for link in _objects(value, "links")
        ],
    )


def _attributes(holder: Any) -> Attributes:
    attributes: Attributes = {}
    for pair in _objects(holder, "attributes"):
        key = pair.get("key")
        if isinstance(key, str):
            attributes[key] = _any_value(pair.get("value"), 0)
    return attributes


def _any_value(value: Any, depth: int) -> Any:
    if not isinstance(value, dict) or depth > _MAX_DEPTH:
        return None
    for kind in ("stringValue", "boolValue", "doubleValue"):
        if kind in value:
            return value[kind]
    if "intValue" in value:
        return to_int(value["intValue"], 0)
    if "arrayValue" in value:
        return [_any_value(item, depth + 1) for item in _objects(value["arrayValue"], "values")]
    return None


def _member(value: Any, *names: str) -> Any:
    if isinstance(value, dict):
        for name in names:
            if name in value:
                return value[name]
    return None


def _objects(holder: Any, *names: str) -> list[dict[str, Any]]:
    items = _member(holder, *names)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _id(value: Any) -> bytes:
    try:
        return bytes.fromhex(value) if isinstance(value, str) else b""
    except ValueError:
        return b""
