"""The native encoder against protobuf's own, span by span and byte by byte."""

from __future__ import annotations

from dataclasses import replace

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
    RootEvent,
    SpanData,
    SpanEvent,
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
        events=[
            Span.Event(name=event.name, time_unix_nano=event.time_ns, attributes=key_values(event.attributes))
            for event in span.events
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


_root_events = st.lists(
    st.builds(
        RootEvent,
        st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=20),
        st.integers(0, 2**62),
        st.dictionaries(
            st.text("abc.", min_size=1, max_size=8),
            st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(exclude_categories=["C"])),
            max_size=4,
        ),
    ),
    max_size=4,
)


@given(recordings(), _root_events)
def test_events_of_roots_are_encoded_and_within_the_bound(
    recording: Recording, events: list[RootEvent]
) -> None:
    roots = [replace(root, events=tuple(events)) for root in roots_from_steps(recording, Run())]
    plan = plan_spans(recording, roots)
    spans = list(plan.spans())
    said = tuple(SpanEvent(event.name, event.time_ns, event.attributes) for event in events)
    root_ids = {(root.trace_id, root.span_id) for root in roots}
    for span in spans:
        assert span.events == (said if (span.trace_id, span.span_id) in root_ids else ())
    requests = list(plan.encode(b"", scope_name="", scope_version="", schema_url=""))
    sent = [
        span
        for request in requests
        for one in ExportTraceServiceRequest.FromString(request.payload).resource_spans
        for scope in one.scope_spans
        for span in scope.spans
    ]
    assert sent == [proto_span(span) for span in spans]
    assert sum(span.ByteSize() for span in sent) <= sum(trace.max_size_bytes for trace in plan.stats)


def test_long_values_of_events_are_cut_and_events_too_large_to_send_are_counted() -> None:
    builder = builder_with_threads()
    builder.add_step(0, 100, 0, track=0)
    recording = builder.finish()
    (root,) = roots_from_steps(recording, Run())
    events = tuple(RootEvent("found", time, {"text": "é" * 3_000}) for time in (1, 2))
    plan = plan_spans(recording, [replace(root, events=events)])
    (span,) = plan.spans()
    assert [len(str(event.attributes["text"])) for event in span.events] == [1_023, 1_023]  # 2,046 bytes
    (request,) = plan.encode(b"", max_request_bytes=1_000)
    (sent,) = ExportTraceServiceRequest.FromString(request.payload).resource_spans[0].scope_spans[0].spans
    assert (len(sent.events), sent.dropped_events_count, request.stripped_spans) == (0, 2, 1)
