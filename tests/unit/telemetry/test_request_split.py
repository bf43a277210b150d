"""Splitting keeps every span once, in order, under its own resource and scope."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_torchprof.telemetry.request_split import count_spans, split_request

# Spans a scope, scopes a resource, resources.
SHAPES = st.lists(st.lists(st.integers(0, 5), max_size=3), max_size=4)


def build(shape: list[list[int]]) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    number = 0
    for resource_number, scopes in enumerate(shape):
        resource_spans = request.resource_spans.add(schema_url=f"resource/{resource_number}")
        resource_spans.resource.attributes.add(key="n").value.int_value = resource_number
        for scope_number, spans in enumerate(scopes):
            scope_spans = resource_spans.scope_spans.add(schema_url=f"scope/{scope_number}")
            scope_spans.scope.name = f"{resource_number}.{scope_number}"
            for _ in range(spans):
                scope_spans.spans.add(name=f"op{number}", span_id=number.to_bytes(8, "big"))
                number += 1
    return request


def flat(request: ExportTraceServiceRequest) -> list[tuple[str, int, str, str, bytes]]:
    """Every span with all that stands above it."""
    return [
        (
            resource_spans.schema_url,
            resource_spans.resource.attributes[0].value.int_value,
            scope_spans.schema_url,
            scope_spans.scope.name,
            span.SerializeToString(),
        )
        for resource_spans in request.resource_spans
        for scope_spans in resource_spans.scope_spans
        for span in scope_spans.spans
    ]


@given(SHAPES)
def test_halves_hold_the_whole(shape: list[list[int]]) -> None:
    request = build(shape)
    total = count_spans(request)
    if total < 2:
        with pytest.raises(ValueError, match=f"a request of {total} spans cannot be split"):
            split_request(request.SerializeToString())
        return
    (head_bytes, head_spans), (tail_bytes, tail_spans) = split_request(request.SerializeToString())
    head = ExportTraceServiceRequest.FromString(head_bytes)
    tail = ExportTraceServiceRequest.FromString(tail_bytes)
    assert flat(head) + flat(tail) == flat(request)
    assert (count_spans(head), count_spans(tail)) == (head_spans, tail_spans)
    assert abs(head_spans - tail_spans) <= 1


def test_what_is_no_request_is_refused() -> None:
    with pytest.raises(DecodeError):
        split_request(b"\xff\xff\xff")
