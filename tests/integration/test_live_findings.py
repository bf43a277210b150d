"""Anti-patterns of a running program: on its spans, in its metrics, and at no risk to it."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_torchprof.analysis.patterns import PatternReport, find_patterns
from otel_torchprof.instrumentor import TorchprofInstrumentor
from otel_torchprof.live import findings as live_findings
from otel_torchprof.recording import Recording
from otel_torchprof.semconv_metrics import PATTERN_FINDINGS
from tests.support.metric_families import KeepingExporter, metrics_of

EVERY_STEP = "skip_first=1,active=3,repeat=1"
TABLE = torch.zeros(64, 64)


def fills_row_by_row() -> None:
    for index in range(64):
        TABLE[index] = index


def train(steps: int) -> None:
    parameter = torch.nn.Parameter(torch.zeros(4))
    optimizer = torch.optim.SGD([parameter])
    for _ in range(steps):
        fills_row_by_row()
        optimizer.zero_grad()
        parameter.sum().backward()
        optimizer.step()


def steps_of(exporter: InMemorySpanExporter) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name == "torch.step"]


def test_steps_have_their_findings_and_metrics_count_them(instrumentor: TorchprofInstrumentor) -> None:
    spans, metrics = InMemorySpanExporter(), KeepingExporter()
    instrumentor.instrument(
        patterns=True, schedule=EVERY_STEP, with_stack=True, span_exporter=spans, metric_exporter=metrics
    )
    train(6)
    instrumentor.uninstrument()
    steps = steps_of(spans)
    assert len(steps) == 3
    code = fills_row_by_row.__code__
    for step in steps:
        (event,) = [
            event
            for event in step.events
            if event.attributes and event.attributes["torch.pattern.name"] == "for-loop-indexing"
        ]
        assert event.attributes is not None
        assert event.name == "torch.pattern"
        assert event.attributes["code.file.path"] == code.co_filename
        assert event.attributes["code.line.number"] == code.co_firstlineno
        assert event.attributes["torch.pattern.count"] == 63
        assert step.start_time <= event.timestamp <= step.end_time  # type: ignore[operator]
    data: Any = metrics_of(metrics.exported[-1])[PATTERN_FINDINGS].data
    counts = {point.attributes["torch.pattern.name"]: point.value for point in data.data_points}
    assert counts["for-loop-indexing"] == 1


def test_nothing_is_looked_for_unless_asked(
    instrumentor: TorchprofInstrumentor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_findings, "find_patterns", pytest.fail)
    spans, metrics = InMemorySpanExporter(), KeepingExporter()
    instrumentor.instrument(schedule=EVERY_STEP, span_exporter=spans, metric_exporter=metrics)
    train(6)
    instrumentor.uninstrument()
    assert [span.events for span in steps_of(spans)] == [(), (), ()]
    assert PATTERN_FINDINGS not in metrics_of(metrics.exported[-1])


def test_it_is_done_on_the_thread_that_sends(
    instrumentor: TorchprofInstrumentor, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def find(recording: Recording) -> PatternReport:
        threads.append(threading.current_thread().name)
        return find_patterns(recording)

    monkeypatch.setattr(live_findings, "find_patterns", find)
    spans = InMemorySpanExporter()
    instrumentor.instrument(patterns=True, schedule=EVERY_STEP, span_exporter=spans)
    train(6)
    instrumentor.uninstrument()
    assert threads == ["otel-torchprof-export"]
    assert len(steps_of(spans)) == 3


def test_a_fault_in_it_costs_neither_the_program_nor_its_spans(
    instrumentor: TorchprofInstrumentor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_recording: Recording) -> PatternReport:
        raise RuntimeError("a fault in a pattern")

    monkeypatch.setattr(live_findings, "find_patterns", fail)
    spans = InMemorySpanExporter()
    instrumentor.instrument(patterns=True, schedule=EVERY_STEP, span_exporter=spans)
    train(6)
    instrumentor.uninstrument()
    assert [span.events for span in steps_of(spans)] == [(), (), ()]
