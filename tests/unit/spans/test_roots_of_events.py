"""Roots that stand for spans of other traces: what they hold, and what stays outside."""

from __future__ import annotations

from dataclasses import replace

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_torchprof.recording import EventKind, Recording, RecordingBuilder
from otel_torchprof.spans import Root, SpanData, SpanLimits, capture_root, plan_spans
from tests.unit.spans.scenes import builder_with_threads

UNBOUNDED = SpanLimits(max_spans_per_trace=0, max_trace_bytes=0, runtime_spans=True)
REQUEST, OTHER, BATCH = 0xAAA, 0xBBB, 0xCCC


def row_of(recording: Recording, name: str) -> int:
    (row,) = (row for row in range(len(recording)) if recording.event_name(row) == name)
    return row


def request(recording: Recording, trace_id: int, *names: str) -> Root:
    """The span of a request, which somebody else sends, around events of those names."""
    rows = tuple(row_of(recording, name) for name in names)
    return Root(trace_id, 0x1, 0, 1000, rows=rows, is_external=True)


def spans_of(recording: Recording, *roots: Root, limits: SpanLimits = UNBOUNDED) -> dict[str, SpanData]:
    rest = replace(capture_root(recording), is_sampled=False)
    return {span.name: span for span in plan_spans(recording, [rest, *roots], limits).spans()}


@pytest.fixture
def builder() -> RecordingBuilder:
    builder = builder_with_threads()
    builder.add_event("Model", 100, 500, kind=EventKind.MODULE)
    builder.add_event("aten::mm", 120, 300)
    builder.add_event("aten::other", 600, 700)
    return builder


def test_what_an_event_encloses_follows_it_and_the_rest_is_in_no_trace(builder: RecordingBuilder) -> None:
    recording = builder.finish()
    spans = spans_of(recording, request(recording, REQUEST, "Model"))
    assert spans.keys() == {"Model", "aten::mm"}
    assert {span.trace_id for span in spans.values()} == {REQUEST}
    assert spans["Model"].parent_span_id == 0x1
    assert spans["aten::mm"].parent_span_id == spans["Model"].span_id


def test_an_event_that_is_the_root_is_one_span(builder: RecordingBuilder) -> None:
    recording = builder.finish()
    root = Root(BATCH, 0x2, 100, 500, name="torch.batch", rows=(row_of(recording, "Model"),))
    spans = spans_of(recording, root)
    assert spans.keys() == {"torch.batch", "aten::mm"}
    assert spans["torch.batch"].parent_span_id == 0
    assert spans["torch.batch"].attributes["torch.self_time_ns"] == 400 - 180
    assert "torch.folded.count" not in spans["torch.batch"].attributes
    assert spans["aten::mm"].parent_span_id == 0x2


def test_an_event_that_is_the_root_fails_as_one_span(builder: RecordingBuilder) -> None:
    builder.add_event("batch", 50, 800, kind=EventKind.USER, error="KeyError")
    recording = builder.finish()
    root = Root(BATCH, 0x2, 50, 800, name="torch.batch", rows=(row_of(recording, "batch"),))
    spans = spans_of(recording, root)
    assert {name: span.error for name, span in spans.items() if span.error} == {"torch.batch": "KeyError"}
    assert spans["torch.batch"].attributes["error.type"] == "KeyError"


def test_another_trace_inside_an_event_stands_apart(builder: RecordingBuilder) -> None:
    """A scope that stays open while its task waits has the calls of other tasks inside."""
    builder.add_event("scope", 50, 800, kind=EventKind.USER)
    recording = builder.finish()
    spans = spans_of(recording, request(recording, OTHER, "scope"), request(recording, REQUEST, "Model"))
    assert {name: span.trace_id for name, span in spans.items()} == {
        "scope": OTHER,
        "aten::other": OTHER,
        "Model": REQUEST,
        "aten::mm": REQUEST,
    }
    assert spans["Model"].parent_span_id == 0x1


def test_in_one_trace_what_encloses_is_the_parent(builder: RecordingBuilder) -> None:
    builder.add_event("scope", 50, 800, kind=EventKind.USER)
    recording = builder.finish()
    spans = spans_of(recording, request(recording, REQUEST, "scope", "Model"))
    assert spans["Model"].parent_span_id == spans["scope"].span_id


def test_what_was_launched_follows_what_launched_it(builder: RecordingBuilder) -> None:
    """Whenever it runs: here while another request is served."""
    builder.add_event("cudaLaunchKernel", 150, 160, kind=EventKind.RUNTIME, correlation=5)
    builder.add_event("void gemm<float>(float*)", 620, 680, track=2, kind=EventKind.KERNEL, correlation=5)
    recording = builder.finish()
    spans = spans_of(
        recording, request(recording, REQUEST, "Model"), request(recording, OTHER, "aten::other")
    )
    assert spans["gemm"].trace_id == REQUEST
    lane = spans["cuda:0 stream 7"]
    assert (lane.trace_id, lane.parent_span_id) == (REQUEST, 0x1)
    assert spans["aten::mm"].attributes["torch.device.time_ns"] == 60
    assert "torch.device.time_ns" not in spans["aten::other"].attributes


@pytest.mark.parametrize("max_spans_per_trace", [0, 1])
def test_a_trace_knows_the_device_time_of_what_it_launched(
    max_spans_per_trace: int, builder: RecordingBuilder
) -> None:
    builder.add_event("cudaLaunchKernel", 150, 160, kind=EventKind.RUNTIME, correlation=5)
    builder.add_event("void gemm<float>(float*)", 620, 680, track=2, kind=EventKind.KERNEL, correlation=5)
    recording = builder.finish()
    rest = replace(capture_root(recording), is_sampled=False)
    roots = [
        rest,
        Root(BATCH, 0x2, 100, 500, name="torch.batch", rows=(row_of(recording, "Model"),)),
        request(recording, OTHER, "aten::other"),
    ]
    plan = plan_spans(recording, roots, replace(UNBOUNDED, max_spans_per_trace=max_spans_per_trace))
    assert {stats.trace_id: stats.device_time_ns for stats in plan.stats} == {
        rest.trace_id: 0,
        BATCH: 60,
        OTHER: 0,
    }


def test_over_the_budget_inner_events_fold_into_the_call(builder: RecordingBuilder) -> None:
    recording = builder.finish()
    limits = SpanLimits(max_spans_per_trace=2, max_trace_bytes=0)
    spans = spans_of(recording, request(recording, REQUEST, "Model"), limits=limits)
    assert spans.keys() == {"Model"}
    assert spans["Model"].attributes["torch.folded.time_ns"] == 180


def test_a_root_of_an_event_that_is_not_there_is_refused(builder: RecordingBuilder) -> None:
    recording = builder.finish()
    with pytest.raises(ValueError, match="event that the recording does not have"):
        spans_of(recording, Root(1, 1, 0, 1, rows=(99,)))
    with pytest.raises(ValueError, match="at least one root without events"):
        plan_spans(recording, [Root(1, 1, 0, 1, rows=(0,))])


@pytest.mark.parametrize("max_request_spans", [1, 8192])
def test_the_span_of_somebody_else_is_not_encoded(builder: RecordingBuilder, max_request_spans: int) -> None:
    recording = builder.finish()
    rest = replace(capture_root(recording), is_sampled=False)
    roots = [
        rest,
        request(recording, REQUEST, "Model"),
        Root(BATCH, 0x2, 600, 700, name="torch.batch", rows=(row_of(recording, "aten::other"),)),
    ]
    plan = plan_spans(recording, roots, UNBOUNDED)
    encoded = [
        (span.name, int.from_bytes(span.trace_id, "big"), int.from_bytes(span.parent_span_id, "big"))
        for part in plan.encode(b"", max_request_spans=max_request_spans)
        for resource_spans in ExportTraceServiceRequest.FromString(part.payload).resource_spans
        for scope_spans in resource_spans.scope_spans
        for span in scope_spans.spans
    ]
    assert encoded == [(span.name, span.trace_id, span.parent_span_id) for span in plan.spans()]
    assert sorted(name for name, *_ids in encoded) == ["Model", "aten::mm", "torch.batch"]
    assert len(plan) == sum(stats.spans for stats in plan.stats) == 3
