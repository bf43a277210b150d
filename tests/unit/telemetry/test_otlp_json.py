"""OTLP/JSON lines, read back by protobuf's own JSON reader once ids are base64 again."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status, TracesData

from otel_torchprof.telemetry.otlp_json import request_to_json_line

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
UINT32 = st.integers(0, 2**32 - 1)
NS = st.integers(0, 2**64 - 1)

values = st.recursive(
    st.one_of(
        TEXT.map(lambda text: AnyValue(string_value=text)),
        st.booleans().map(lambda flag: AnyValue(bool_value=flag)),
        st.integers(-(2**63), 2**63 - 1).map(lambda number: AnyValue(int_value=number)),
        st.floats(allow_nan=False).map(lambda number: AnyValue(double_value=number)),
        st.binary(max_size=9).map(lambda data: AnyValue(bytes_value=data)),
        st.just(AnyValue()),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: AnyValue(array_value=ArrayValue(values=items))),
        st.lists(inner, max_size=3).map(
            lambda items: AnyValue(
                kvlist_value=KeyValueList(values=[KeyValue(key="k", value=v) for v in items])
            )
        ),
    ),
    max_leaves=6,
)
attributes = st.lists(st.builds(KeyValue, key=TEXT, value=values), max_size=4)
links = st.builds(
    Span.Link,
    trace_id=st.binary(min_size=16, max_size=16),
    span_id=st.binary(min_size=8, max_size=8),
    trace_state=TEXT,
    attributes=attributes,
    dropped_attributes_count=UINT32,
    flags=UINT32,
)
events = st.builds(
    Span.Event, time_unix_nano=NS, name=TEXT, attributes=attributes, dropped_attributes_count=UINT32
)
spans = st.builds(
    Span,
    trace_id=st.binary(min_size=16, max_size=16),
    span_id=st.binary(min_size=8, max_size=8),
    parent_span_id=st.one_of(st.just(b""), st.binary(min_size=8, max_size=8)),
    trace_state=TEXT,
    flags=UINT32,
    name=TEXT,
    kind=st.sampled_from(list(Span.SpanKind.values())),
    start_time_unix_nano=NS,
    end_time_unix_nano=NS,
    attributes=attributes,
    dropped_attributes_count=UINT32,
    events=st.lists(events, max_size=2),
    dropped_events_count=UINT32,
    links=st.lists(links, max_size=2),
    dropped_links_count=UINT32,
    status=st.builds(Status, message=TEXT, code=st.sampled_from(list(Status.StatusCode.values()))),
)


def request_of(*items: Span) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add(schema_url="r")
    resource_spans.resource.attributes.add(key="service.name").value.string_value = "s"
    resource_spans.resource.dropped_attributes_count = 3
    scope_spans = resource_spans.scope_spans.add(schema_url="s")
    scope_spans.scope.name = "otel_torchprof"
    scope_spans.scope.version = "1"
    scope_spans.spans.extend(items)
    return request


def hex_ids_as_base64(document: Any) -> Any:
    """OTLP's ids in the form that protobuf's JSON mapping has for bytes."""
    if isinstance(document, dict):
        return {
            key: base64.b64encode(bytes.fromhex(value)).decode()
            if key in {"traceId", "spanId", "parentSpanId"}
            else hex_ids_as_base64(value)
            for key, value in document.items()
        }
    if isinstance(document, list):
        return [hex_ids_as_base64(item) for item in document]
    return document


def read_line(line: bytes) -> TracesData:
    traces: TracesData = ParseDict(hex_ids_as_base64(json.loads(line)), TracesData())
    return traces


@settings(max_examples=40)
@given(st.lists(spans, max_size=2))
def test_a_line_reads_back_as_the_request(items: list[Span]) -> None:
    request = request_of(*items)
    line = request_to_json_line(request)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert read_line(line).SerializeToString(deterministic=True) == request.SerializeToString(
        deterministic=True
    )


def test_the_words_of_the_format() -> None:
    span = Span(
        trace_id=bytes(range(16)),
        span_id=bytes(range(8)),
        parent_span_id=b"\xff" * 8,
        name='a"b\\\n\u2028é',
        kind=Span.SPAN_KIND_INTERNAL,
        start_time_unix_nano=1_700_000_000_000_000_001,
        end_time_unix_nano=1_700_000_000_000_000_002,
        status=Status(code=Status.STATUS_CODE_ERROR, message="oom"),
    )
    span.attributes.add(key="n").value.int_value = -5
    document = json.loads(request_to_json_line(request_of(span)))
    assert list(document) == ["resourceSpans"]
    assert document["resourceSpans"][0]["scopeSpans"][0]["spans"] == [
        {
            "traceId": "000102030405060708090a0b0c0d0e0f",
            "spanId": "0001020304050607",
            "parentSpanId": "ffffffffffffffff",
            "name": 'a"b\\\n\u2028é',
            "kind": 1,
            "startTimeUnixNano": "1700000000000000001",
            "endTimeUnixNano": "1700000000000000002",
            "attributes": [{"key": "n", "value": {"intValue": "-5"}}],
            "status": {"message": "oom", "code": 2},
        }
    ]


@pytest.mark.parametrize(
    ("number", "text"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")]
)
def test_numbers_that_json_does_not_have_are_text(number: float, text: str) -> None:
    span = Span(trace_id=b"t" * 16, span_id=b"s" * 8)
    span.attributes.add(key="n").value.double_value = number
    line = request_to_json_line(request_of(span))
    assert f'{{"doubleValue":"{text}"}}'.encode() in line
    read = read_line(line).resource_spans[0].scope_spans[0].spans[0].attributes[0].value.double_value
    assert repr(read) == repr(number)
