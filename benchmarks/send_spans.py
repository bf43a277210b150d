"""From a recording to a real collector: ours, and the SDK's exporter with spans that are finished."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from benchmarks.pairing import elapsed_ns, paired
from benchmarks.rows import Row, Target
from otel_torchprof.recording import Recording, RecordingBuilder
from otel_torchprof.spans import EncodedRequest, SpanData, SpanLimits, SpanPlan, capture_root, plan_spans
from otel_torchprof.telemetry.counters import ExportCounters
from otel_torchprof.telemetry.destinations import RequestDestination
from otel_torchprof.telemetry.exporters import otlp_sender
from otel_torchprof.telemetry.otlp_config import Protocol
from otel_torchprof.telemetry.pipeline import ExportPipeline
from otel_torchprof.telemetry.readable_spans import to_readable_span
from otel_torchprof.telemetry.resource import serialize_resource
from tests.support.rotel import RotelCollector

_START_NS = 1_700_000_000_000_000_000
_OP_NS = 1_000
_OPS_PER_PARENT = 10  # a module call and the ops in it
_OP_NAMES = 60
_SDK_BATCH_SPANS = 512  # BatchSpanProcessor's
_NO_LIMITS = SpanLimits(max_spans_per_trace=0, max_trace_bytes=0)
_RESOURCE = Resource({"service.name": "train.py", "torch.rank": 0})
_FLUSH_TIMEOUT_S = 120.0


def run(quick: bool) -> list[Row]:
    """Measures the rows "spans to a collector" of the table; starts a collector."""
    ours_spans, sdk_spans, repeats = (20_000, 2_048, 3) if quick else (200_000, 20_480, 5)
    recording = make_recording(ours_spans)
    readable = _readable_spans(recording, sdk_spans)
    with tempfile.TemporaryDirectory() as folder, RotelCollector(Path(folder)) as collector:
        figures = paired(
            lambda: our_rate(recording, collector.http_endpoint, "http/protobuf"),
            lambda: sdk_rate(readable, collector.http_endpoint),
            repeats,
        )
        grpc_rates = sorted(our_rate(recording, collector.grpc_endpoint, "grpc") for _ in range(repeats))
    http = "SDK exporter, HTTP"
    return [
        Row(
            "recording to collector, HTTP",
            figures.a,
            "spans/s",
            http,
            figures.b,
            Target("at least", 500_000, of="ours"),
        ),
        Row("recording to collector, gRPC", grpc_rates[repeats // 2], "spans/s", http, figures.b),
    ]


def make_recording(events: int) -> Recording:
    """`events` events on one thread, in groups of one parent with the others inside it."""
    builder = RecordingBuilder()
    track = builder.add_track("main", thread_id=1, torch_thread_id=1)
    names = [builder.add_name(f"aten::op_{number}") for number in range(_OP_NAMES)]
    numbers = np.arange(events)
    is_parent = numbers % _OPS_PER_PARENT == 0
    start_ns = _START_NS + numbers * _OP_NS
    duration_ns = np.where(is_parent, _OPS_PER_PARENT * _OP_NS - 1, _OP_NS // 2)
    name = np.array(names)[numbers % _OP_NAMES]
    builder.add_events(name, start_ns, start_ns + duration_ns, np.full(events, track))
    return builder.finish()


def our_rate(recording: Recording, endpoint: str, protocol: Protocol) -> float:
    """Spans a second through plan, encoder, pipeline and sender."""
    counters = ExportCounters()
    sender = otlp_sender({"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}, protocol)
    pipeline = ExportPipeline([RequestDestination(sender, counters)], counters)

    def export() -> None:
        pipeline.submit(_Work(recording))
        pipeline.flush(_FLUSH_TIMEOUT_S)

    nanoseconds = elapsed_ns(export)
    pipeline.shutdown(_FLUSH_TIMEOUT_S)
    counts = counters.counts()
    if counts.sent_spans != len(recording) + 1:
        raise RuntimeError(f"not all spans arrived: {counts}")
    return counts.sent_spans / nanoseconds * 1e9


def sdk_rate(spans: list[ReadableSpan], endpoint: str) -> float:
    """Spans a second through the SDK's OTLP exporter over HTTP, without its batch processor, which drops."""
    exporter = OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces")
    results: list[SpanExportResult] = []

    def export() -> None:
        for begin in range(0, len(spans), _SDK_BATCH_SPANS):
            results.append(exporter.export(spans[begin : begin + _SDK_BATCH_SPANS]))

    nanoseconds = elapsed_ns(export)
    exporter.shutdown()  # type: ignore[no-untyped-call]
    if set(results) != {SpanExportResult.SUCCESS}:
        raise RuntimeError(f"the SDK's exporter failed: {results}")
    return len(spans) / nanoseconds * 1e9


class _Work:
    def __init__(self, recording: Recording) -> None:
        self.size_bytes = 0
        self._recording = recording

    def requests(self) -> Iterable[EncodedRequest]:
        return _plan(self._recording).encode(serialize_resource(_RESOURCE))

    def spans(self) -> Iterable[SpanData]:
        return _plan(self._recording).spans()

    def delivered(self) -> None:
        """Nobody waits to hear it."""


def _plan(recording: Recording) -> SpanPlan:
    return plan_spans(recording, [capture_root(recording)], _NO_LIMITS)


def _readable_spans(recording: Recording, count: int) -> list[ReadableSpan]:
    spans = _plan(recording).spans()
    return [to_readable_span(span, _RESOURCE) for span, _ in zip(spans, range(count), strict=False)]
