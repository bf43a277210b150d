"""What requests had of a batch: at its end, and once its recording tells the time on devices."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import INVALID_SPAN, NonRecordingSpan, Span, SpanContext, TraceFlags

from otel_torchprof.spans import TraceStats
from otel_torchprof.telemetry.batch_shares import BatchShares, EndedBatch, parts

ROOT = SpanContext(0xBA7C4, 0x1, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
SHARES = [0.25, 0.75, 0.0]


class Server:
    """A provider whose spans are kept, and batches of three requests that it serves."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.shares = BatchShares(lambda: self.provider)

    def request(self) -> Span:
        return self.provider.get_tracer("server").start_span("request")

    def end_batch(self, requests: list[Span], root: SpanContext = ROOT) -> EndedBatch:
        ended = EndedBatch(requests, SHARES, root, begin_unix_ns=1_000, duration_ns=500, cpu_time_ns=400)
        self.shares.batch_ended(ended)
        return ended

    def recorded(self, device_time_ns: int, root: SpanContext = ROOT) -> None:
        self.shares.recorded([TraceStats(root.trace_id, root.span_id, 3, 0, 0, device_time_ns)])


@pytest.fixture
def server() -> Server:
    return Server()


def test_at_its_end_a_batch_knows_no_device_time(server: Server) -> None:
    ended = server.end_batch([server.request() for _ in SHARES])
    told = ended.attributes()
    assert [one["torch.batch.share.cpu_time_ns"] for one in told] == [100, 300, 0]
    assert {one["torch.batch.trace_id"] for one in told} == {f"{ROOT.trace_id:032x}"}
    assert not any(name for one in told for name in one if "device" in name)


def test_device_time_comes_as_a_span_below_each_request(server: Server) -> None:
    requests = [server.request() for _ in SHARES]
    server.end_batch(requests)
    for request in requests:
        request.end()  # long before the recording is ready
    server.exporter.clear()
    server.recorded(1_000)
    spans = server.exporter.get_finished_spans()
    assert [span.name for span in spans] == ["torch.batch.share"] * 3
    attributes: list[dict[str, Any]] = [dict(span.attributes or {}) for span in spans]
    assert {one["torch.batch.device_time_ns"] for one in attributes} == {1_000}
    assert [one["torch.batch.share.device_time_ns"] for one in attributes] == [250, 750, 0]
    assert [one["torch.batch.share"] for one in attributes] == SHARES
    for span, request in zip(spans, requests, strict=True):
        own = request.get_span_context()
        assert span.context is not None
        assert span.parent is not None
        assert (span.context.trace_id, span.parent.span_id) == (own.trace_id, own.span_id)
        assert (span.start_time, span.end_time) == (1_000, 1_500)
        assert [link.context for link in span.links] == [ROOT]


def test_without_work_on_a_device_nothing_more_is_sent(server: Server) -> None:
    server.end_batch([server.request() for _ in SHARES])
    server.recorded(0)
    server.recorded(1_000)  # of a batch that was told of
    assert server.exporter.get_finished_spans() == ()


def test_other_traces_of_the_recording_are_no_batches(server: Server) -> None:
    server.end_batch([server.request() for _ in SHARES])
    server.recorded(1_000, SpanContext(ROOT.trace_id, 0x2, is_remote=False))
    assert server.exporter.get_finished_spans() == ()


def test_a_request_of_another_process_has_its_share_too(server: Server) -> None:
    remote = SpanContext(0xAAA, 0x3, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    unsampled = SpanContext(0xBBB, 0x4, is_remote=True, trace_flags=TraceFlags(0))
    server.end_batch([NonRecordingSpan(remote), NonRecordingSpan(unsampled), INVALID_SPAN])
    server.recorded(1_000)
    (span,) = server.exporter.get_finished_spans()
    assert span.parent == remote


def test_batches_whose_recordings_never_come_are_forgotten(server: Server) -> None:
    requests = [server.request() for _ in SHARES]
    roots = [SpanContext(0xC0000 + number, 0x1, is_remote=False) for number in range(2_000)]
    for root in roots:
        server.end_batch(requests, root)
    server.recorded(1_000, roots[0])
    assert server.exporter.get_finished_spans() == ()
    server.recorded(1_000, roots[-1])
    assert len(server.exporter.get_finished_spans()) == len(SHARES)


@given(st.integers(0, 10**15), st.lists(st.integers(0, 1_000), min_size=1, max_size=50))
def test_parts_add_up(whole: int, weights: list[int]) -> None:
    total = sum(weights) + 1
    shares = [weight / total for weight in weights[:-1]] + [(weights[-1] + 1) / total]
    found = parts(whole, shares)
    assert sum(found) == whole
    assert all(
        abs(part - share * whole) <= 1 + whole * 1e-9 for part, share in zip(found, shares, strict=True)
    )


class Refusing(NonRecordingSpan):
    """Of a program that makes spans of its own kind."""

    def is_recording(self) -> bool:
        return True

    def add_event(self, *_: Any, **__: Any) -> None:
        raise OSError("closed")


def test_a_request_that_takes_no_event_keeps_it_from_no_other(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    requests = [Refusing(ROOT), server.request(), server.request()]
    server.shares.tell_requests(server.end_batch(requests))
    for request in requests[1:]:
        request.end()
    assert [len(span.events) for span in server.exporter.get_finished_spans()] == [1, 1]
    assert caplog.messages == ["otel-torchprof: a request was not told of its batch: OSError('closed')"]
