"""Batches: one trace for all requests, links to each, and what each had of it on its own span."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from typing import Any

import pytest
import torch
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, Span, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_torchprof import batch, step
from otel_torchprof.instrumentor import TorchprofInstrumentor
from otel_torchprof.recorder.failures import failures
from otel_torchprof.semconv_batch import BATCH_ATTRIBUTES
from tests.support.served_models import Repeated, ops_by_trace, ops_of_a_call, spans_of_calls

REQUESTS = 8


@pytest.fixture
def exporter(instrumentor: TorchprofInstrumentor) -> InMemorySpanExporter:
    return spans_of_calls(instrumentor)


def start_requests(count: int = REQUESTS) -> list[Span]:
    """Open spans, each the root of its own trace."""
    tracer = TracerProvider().get_tracer("server")
    return [tracer.start_span(f"request {number}") for number in range(count)]  # type: ignore[misc]


def events_of(request: Span) -> list[dict[str, Any]]:
    return [dict(event.attributes or {}) for event in request.events if event.name == "torch.batch"]


def root_of(exporter: InMemorySpanExporter, instrumentor: TorchprofInstrumentor) -> ReadableSpan:
    instrumentor.uninstrument()
    (root,) = (one for one in exporter.get_finished_spans() if one.parent is None)
    assert root.name == "torch.batch"
    return root


def test_a_batch_is_linked_to_its_requests_and_shared_among_them(
    exporter: InMemorySpanExporter, instrumentor: TorchprofInstrumentor
) -> None:
    requests = start_requests()
    model = Repeated().eval()
    with batch(requests):
        model(50)
    root = root_of(exporter, instrumentor)
    assert root.context is not None
    assert {link.context.trace_id for link in root.links} == {
        request.get_span_context().trace_id for request in requests
    }
    assert [dict(link.attributes or {}) for link in root.links] == [{"torch.link.type": "request"}] * REQUESTS
    by_trace = ops_by_trace(exporter.get_finished_spans())
    assert by_trace.keys() == {root.context.trace_id}
    assert by_trace[root.context.trace_id]["aten::sin"] == ops_of_a_call(50)["aten::sin"] == 50
    events = [event for request in requests for event in events_of(request)]
    assert len(events) == REQUESTS
    for event in events:
        assert event.keys() == {one.name for one in BATCH_ATTRIBUTES if "device_time" not in one.name}
        assert event["torch.batch.trace_id"] == trace.format_trace_id(root.context.trace_id)
        assert event["torch.batch.span_id"] == trace.format_span_id(root.context.span_id)
        assert event["torch.batch.size"] == REQUESTS
        assert event["torch.batch.share"] == 1 / REQUESTS
    cpu_time_ns = events[0]["torch.batch.cpu_time_ns"]
    assert cpu_time_ns > 0
    assert sum(event["torch.batch.share.cpu_time_ns"] for event in events) == cpu_time_ns


def test_shares_follow_weights(exporter: InMemorySpanExporter, instrumentor: TorchprofInstrumentor) -> None:
    requests = start_requests(3)
    with batch(requests, weights=[1, 3, 0]):
        Repeated()(5)
    root_of(exporter, instrumentor)
    (first,), (second,), (third,) = map(events_of, requests)
    assert [event["torch.batch.share"] for event in (first, second, third)] == [0.25, 0.75, 0.0]
    parts = [event["torch.batch.share.cpu_time_ns"] for event in (first, second, third)]
    assert sum(parts) == first["torch.batch.cpu_time_ns"]
    assert parts[2] == 0


def test_what_a_request_may_be(exporter: InMemorySpanExporter, instrumentor: TorchprofInstrumentor) -> None:
    open_span, context_only, linked, in_context, ended = start_requests(5)
    ended.end()
    with batch(
        [
            open_span,
            context_only.get_span_context(),
            trace.Link(linked.get_span_context()),
            trace.set_span_in_context(in_context),
            ended,
        ]
    ):
        Repeated()(1)
    root = root_of(exporter, instrumentor)
    assert len(root.links) == 5
    assert [len(events_of(one)) for one in (open_span, context_only, linked, in_context, ended)] == [
        1,
        0,
        0,
        1,
        0,
    ]


def test_a_worker_started_by_one_request_works_for_all(
    exporter: InMemorySpanExporter, instrumentor: TorchprofInstrumentor
) -> None:
    """Its task holds the context of whoever started it for good."""
    requests = start_requests(2)
    model = Repeated().eval()

    async def worker() -> None:
        with batch(requests):
            await asyncio.to_thread(model, 4)

    async def serve() -> None:
        with trace.use_span(requests[0]):
            task = asyncio.create_task(worker())
        await task

    asyncio.run(serve())
    root = root_of(exporter, instrumentor)
    assert root.context is not None
    assert ops_by_trace(exporter.get_finished_spans()) == {root.context.trace_id: ops_of_a_call(4)}


def test_two_batches_at_once_stay_apart(
    exporter: InMemorySpanExporter, instrumentor: TorchprofInstrumentor
) -> None:
    model = Repeated().eval()

    async def worker(times: int) -> None:
        with batch(start_requests(1)):
            await asyncio.sleep(0)
            model(times)
            await asyncio.sleep(0)
            await asyncio.to_thread(model, times)

    async def serve() -> None:
        await asyncio.gather(worker(1), worker(2), worker(3))

    asyncio.run(serve())
    instrumentor.uninstrument()
    spans = exporter.get_finished_spans()
    roots = [one for one in spans if one.parent is None]
    assert [one.name for one in roots] == ["torch.batch"] * 3
    counts = sorted(ops["aten::sin"] for ops in ops_by_trace(spans).values())
    assert counts == [2, 4, 6]


def test_a_batch_that_the_schedule_leaves_out_changes_nothing(instrumentor: TorchprofInstrumentor) -> None:
    exporter = InMemorySpanExporter()
    instrumentor.instrument(mode="trace", step="module", schedule="skip_first=100", span_exporter=exporter)
    (request,) = start_requests(1)
    with trace.use_span(request), batch([request]):
        assert trace.get_current_span() is request
        Repeated()(1)
    instrumentor.uninstrument()
    assert exporter.get_finished_spans() == ()
    assert events_of(request) == []


NO_RECORD = "a batch was not recorded, because of"


class WithoutContext(trace.NonRecordingSpan):
    def get_span_context(self) -> Any:
        return None


@pytest.mark.parametrize(
    ("requests", "weights", "reason", "way_out"),
    [
        ([None, None], [1.0], "the number of weights", "1 for 2 requests: give one for each, or none"),
        ([None, None], [1.0, -1.0], "the weights", "none negative"),
        ([None, None], [0.0, 0.0], "the weights", "not all 0"),
        ([None, None], [float("nan"), 1.0], "the weights", "numbers such as tokens"),
        ([None, None], ["many", "few"], "the weights", "numbers such as tokens"),
        (None, (), "the requests", "_Span is no list of requests: write batch([request])"),
        (7, (), "the requests", "int is no list of requests"),
        ([{"traceparent": "00-1-1-01"}], (), "a request", "dict is none: pass what trace.get_current_span()"),
        ([WithoutContext(trace.INVALID_SPAN_CONTEXT)], (), "a request", "WithoutContext has no context"),
    ],
)
def test_each_mistake_has_a_line_with_the_way_out(
    requests: Any,
    weights: Any,
    reason: str,
    way_out: str,
    exporter: InMemorySpanExporter,
    instrumentor: TorchprofInstrumentor,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(failures, "_counts", Counter())
    (request,) = start_requests(1)
    if requests is None:
        requests = request
    elif isinstance(requests, list):
        requests = [one or request for one in requests]
    for _ in range(2):
        with batch(requests, weights=weights):
            Repeated()(1)
    assert failures.count(f"{NO_RECORD} {reason}") == 2
    (line,) = [record.getMessage() for record in caplog.records if NO_RECORD in record.getMessage()]
    assert f"{NO_RECORD} {reason}: " in line
    assert way_out in line


def test_in_a_program_with_steps_a_batch_is_sent_once(instrumentor: TorchprofInstrumentor) -> None:
    """Its ops are in the recording of the step, and there in the trace of the batch."""
    exporter = InMemorySpanExporter()
    instrumentor.instrument(
        mode="trace", schedule="skip_first=1", span_exporter=exporter, tracer_provider=TracerProvider()
    )
    model = Repeated().eval()
    requests = start_requests(2)
    with torch.inference_mode():
        for times in (50, 60):
            with batch(requests):
                model(times)
            torch.ones(3).cos()
            step()
    instrumentor.uninstrument()
    spans = exporter.get_finished_spans()
    (root,) = (one for one in spans if one.name == "torch.batch")
    recorded_step = next(one for one in spans if one.name == "torch.step")
    assert root.context is not None
    assert recorded_step.context is not None
    by_trace = ops_by_trace(spans)
    assert by_trace[root.context.trace_id] == ops_of_a_call(60)
    assert by_trace[recorded_step.context.trace_id]["aten::cos"] == 1
    assert "aten::sin" not in by_trace[recorded_step.context.trace_id]
    assert len({(one.context.trace_id, one.context.span_id) for one in spans if one.context}) == len(spans)
    assert [len(events_of(request)) for request in requests] == [1, 1]
    assert events_of(requests[0])[0]["torch.batch.span_id"] == trace.format_span_id(root.context.span_id)


def test_uninstrumented_it_does_nothing() -> None:
    (request,) = start_requests(1)
    with batch([request]):
        Repeated()(1)
    assert events_of(request) == []


def test_the_share_of_a_batch_is_searchable() -> None:
    assert all(re.fullmatch(r"torch\.batch\.[a-z_.]+", attribute.name) for attribute in BATCH_ATTRIBUTES)
