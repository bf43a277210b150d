"""Models whose calls can be told apart by what they run, and what was sent of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_torchprof.instrumentor import TorchprofInstrumentor


class Repeated(torch.nn.Module):
    """Runs `torch.sin` as often as it is told, between two modules: each call counts its own ops."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.last = torch.nn.ReLU()

    def forward(self, times: int) -> torch.Tensor:
        value = self.first(torch.ones(2, 4))
        for _ in range(times):
            value = torch.sin(value)
        return self.last(value)


def spans_of_calls(instrumentor: TorchprofInstrumentor, **options: Any) -> InMemorySpanExporter:
    """Instruments a server by module calls: where its spans arrive.

    Args:
        instrumentor: not instrumented yet.
        options: further ones of `instrument()`.
    """
    exporter = InMemorySpanExporter()
    instrumentor.instrument(
        mode="trace",
        step="module",
        schedule="active=1000",
        span_exporter=exporter,
        tracer_provider=TracerProvider(),
        **options,
    )
    return exporter


def ops_of_a_call(times: int) -> Counter[str]:
    """What a call of `Repeated` runs, counted by torch's own profiler."""
    model = Repeated().eval()
    with torch.inference_mode(), torch.autograd.profiler.profile() as profile:
        model(times)
    return Counter(event.name for event in profile.function_events)


def ops_by_trace(spans: Iterable[ReadableSpan]) -> dict[int, Counter[str]]:
    """The ops that were sent, by trace id."""
    by_trace: dict[int, Counter[str]] = {}
    for span in spans:
        assert span.context is not None
        if span.name.startswith("aten::"):
            by_trace.setdefault(span.context.trace_id, Counter())[span.name] += 1
    return by_trace
