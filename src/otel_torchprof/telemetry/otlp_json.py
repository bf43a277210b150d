"""OTLP/JSON: an `ExportTraceServiceRequest` as one line of JSON.

The mapping is OTLP's, which is protobuf's own but for two things: trace and span ids are hexadecimal, enums
are numbers. 64-bit integers are strings; fields with their default value are left out.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

Json: TypeAlias = dict[str, Any]


def request_to_json_line(request: ExportTraceServiceRequest) -> bytes:
    """`request` as a line of UTF-8 JSON, a TracesData object, ending in a newline."""
    document = {"resourceSpans": [_resource_spans(item) for item in request.resource_spans]}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _resource_spans(item: ResourceSpans) -> Json:
    resource: Json = {"attributes": _attributes(item.resource.attributes)}
    _put(resource, "droppedAttributesCount", item.resource.dropped_attributes_count)
    document: Json = {"resource": resource, "scopeSpans": [_scope_spans(scope) for scope in item.scope_spans]}
    _put(document, "schemaUrl", item.schema_url)
    return document


def _scope_spans(item: ScopeSpans) -> Json:
    document: Json = {"scope": _scope(item.scope), "spans": [_span(span) for span in item.spans]}
    _put(document, "schemaUrl", item.schema_url)
    return document


def _scope(item: InstrumentationScope) -> Json:
    document: Json = {}
    _put(document, "name", item.name)
    _put(document, "version", item.version)
    _put(document, "attributes", _attributes(item.attributes))
    _put(document, "droppedAttributesCount", item.dropped_attributes_count)
    return document


def _span(item: Span) -> Json:
    document: Json = {"traceId": item.trace_id.hex(), "spanId": item.span_id.hex()}
    _put(document, "traceState", item.trace_state)
    _put(document, "parentSpanId", item.parent_span_id.hex())
    _put(document, "flags", item.flags)
    document["name"] = item.name
    _put(document, "kind", item.kind)
    document["startTimeUnixNano"] = str(item.start_time_unix_nano)
    document["endTimeUnixNano"] = str(item.end_time_unix_nano)
    _put(document, "attributes", _attributes(item.attributes))
    _put(document, "droppedAttributesCount", item.dropped_attributes_count)
    _put(document, "events", [_event(event) for event in item.events])
    _put(document, "droppedEventsCount", item.dropped_events_count)
    _put(document, "links", [_link(link) for link in item.links])
    _put(document, "droppedLinksCount", item.dropped_links_count)
    document["status"] = _status(item.status)
    return document


def _event(item: Span.Event) -> Json:
    document: Json = {"timeUnixNano": str(item.time_unix_nano), "name": item.name}
    _put(document, "attributes", _attributes(item.attributes))
    _put(document, "droppedAttributesCount", item.dropped_attributes_count)
    return document


def _link(item: Span.Link) -> Json:
    document: Json = {"traceId": item.trace_id.hex(), "spanId": item.span_id.hex()}
    _put(document, "traceState", item.trace_state)
    _put(document, "attributes", _attributes(item.attributes))
    _put(document, "droppedAttributesCount", item.dropped_attributes_count)
    _put(document, "flags", item.flags)
    return document


def _status(item: Status) -> Json:
    document: Json = {}
    _put(document, "message", item.message)
    _put(document, "code", item.code)
    return document


def _attributes(items: Iterable[KeyValue]) -> list[Json]:
    return [{"key": item.key, "value": _value(item.value)} for item in items]


def _value(value: AnyValue) -> Json:
    kind = value.WhichOneof("value")
    if kind not in _VALUE_MAPPINGS:
        return {}
    key, mapping = _VALUE_MAPPINGS[kind]
    return {key: mapping(getattr(value, kind))}


def _double(value: float) -> float | str:
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _put(document: Json, key: str, value: object) -> None:
    if value:
        document[key] = value


_VALUE_MAPPINGS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "string_value": ("stringValue", lambda text: text),
    "int_value": ("intValue", str),
    "bool_value": ("boolValue", lambda flag: flag),
    "double_value": ("doubleValue", _double),
    "array_value": ("arrayValue", lambda array: {"values": [_value(item) for item in array.values]}),
    "kvlist_value": ("kvlistValue", lambda pairs: {"values": _attributes(pairs.values)}),
    "bytes_value": ("bytesValue", lambda data: base64.b64encode(data).decode("ascii")),
}
