"""The native encoder against protobuf's own, span by span and byte by byte."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from otel_torchprof.recording import Recording
from otel_torchprof.spans import (
    Attributes,
    AttributeValue,
    SpanData,
    SpanLimits,
    plan_spans,
    roots_from_steps,
)
from tests.unit.spans.scenes import Run, builder_with_threads, recordings

RESOURCE = Resource(attributes=[KeyValue(key="service.name", value=AnyValue(string_value="train"))])


def any_value(value: AttributeValue) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, str):
        return AnyValue(string_value=value)
    assert isinstance(value, tuple)
    return AnyValue(array_value=ArrayValue(values=[any_value(item) for item in value]))


def key_values(attributes: Attributes) -> list[KeyValue]:
    return [KeyValue(key=name, value=any_value(value)) for name, value in attributes.items()]


def proto_span(span: SpanData) -> Span:
    return Span(
        trace_id=span.trace_id.to_bytes(16, "big"),
        span_id=span.span_id.to_bytes(8, "big"),
        parent_span_id=span.parent_span_id.to_bytes(8, "big") if span.parent_span_id else b"",
        name=span.name,
        kind=Span.SPAN_KIND_INTERNAL,
        start_time_unix_nano=span.start_ns,
        end_time_unix_nano=span.end_ns,
        attributes=key_values(span.attributes),
        links=[
            Span.Link(
                trace_id=link.trace_id.to_bytes(16, "big"),
                span_id=link.span_id.to_bytes(8, "big"),
                attributes=key_values(link.attributes),
            )
            for link in span.links
        ],
        status=None if span.error is None else Status(code=Status.STATUS_CODE_ERROR, message=span.error),
        flags=1,
    )


def proto_request(spans: list[SpanData]) -> ExportTraceServiceRequest:
    scope = ScopeSpans(
        scope=InstrumentationScope(name="scope", version="1.2"),
        spans=[proto_span(span) for span in spans],
        schema_url="https://schema",
    )
    return ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(resource=RESOURCE, scope_spans=[scope], schema_url="https://schema")]
    )


@settings(max_examples=100, deadline=None)
@given(recordings(), st.sampled_from([0, 4, 12]), st.sampled_from([1, 3, 8192]))
def test_the_bytes_are_those_of_protobuf(
    recording: Recording, max_spans: int, max_request_spans: int
) -> None:
    plan = plan_spans(recording, roots_from_steps(recording, Run()), SpanLimits(max_spans))
    spans = list(plan.spans())
    requests = plan.encode(
        RESOURCE.SerializeToString(),
        scope_name="scope",
        scope_version="1.2",
        schema_url="https://schema",
        max_request_spans=max_request_spans,
    )
    assert sum(request.spans for request in requests) == len(spans)
    for request in requests:
        expected, spans = proto_request(spans[: request.spans]), spans[request.spans :]
        assert ExportTraceServiceRequest.FromString(request.payload) == expected
        assert request.payload == expected.SerializeToString()


@settings(max_examples=50, deadline=None)
@given(st.text(), st.binary(max_size=40))
def test_any_name_is_valid_utf8(text: str, junk: bytes) -> None:
    builder = builder_with_threads()
    name_id = builder.native.add_string(text.encode("utf-8", "surrogatepass") + junk, junk)
    builder.add_events([name_id], [0], [10], [0])
    recording = builder.finish()
    plan = plan_spans(recording, roots_from_steps(recording, Run()))
    (request,) = plan.encode(b"")
    spans = ExportTraceServiceRequest.FromString(request.payload).resource_spans[0].scope_spans[0].spans
    assert [span.name for span in spans] == [span.name for span in plan.spans()]
    assert all(character.isprintable() or ord(character) > 127 for character in spans[1].name)
