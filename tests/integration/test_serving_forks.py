"""Workers that a server forks from a process that has loaded the model, and workers that only load data."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from typing import Any

import torch
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from torch.utils.data import DataLoader, Dataset

from otel_torchprof import set_mode
from otel_torchprof.instrumentor import TorchprofInstrumentor
from otel_torchprof.semconv_metrics import OP_CALLS
from tests.support.metric_families import KeepingExporter, metrics_of
from tests.support.served_models import Repeated


class Server:
    """An instrumented program that has its model, and may have answered requests."""

    def __init__(self, instrumentor: TorchprofInstrumentor, **options: Any) -> None:
        self.spans, self.metrics = InMemorySpanExporter(), KeepingExporter()
        self._instrumentor = instrumentor
        provider = TracerProvider()
        instrumentor.instrument(
            step="module",
            tracer_provider=provider,
            span_exporter=self.spans,
            metric_exporter=self.metrics,
            **options,
        )
        self.tracer = provider.get_tracer("server")
        self._model = Repeated().eval()

    def answer(self, times: int = 1) -> None:
        with self.tracer.start_as_current_span("request"), torch.inference_mode():
            self._model(times)

    def end(self) -> dict[str, Any]:
        """What it has sent by its end."""
        self._instrumentor.uninstrument()
        names = [span.name for span in self.spans.get_finished_spans()]
        return {
            "calls": names.count("Repeated"),
            "counts": [OP_CALLS in metrics_of(exported) for exported in self.metrics.exported],
        }


def is_counting(instrumentor: TorchprofInstrumentor) -> bool:
    return any(family.metric.name == OP_CALLS and family.points for family in instrumentor.collect_metrics())


def in_child(work: Callable[[], Any]) -> Any:
    """What `work` returns in a forked child."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        answer: Any = None
        try:
            answer = work()
        finally:
            os.write(writable, json.dumps(answer).encode())
            os._exit(0)
    os.close(writable)
    with os.fdopen(readable) as pipe:
        answer = json.load(pipe)
    os.waitpid(child, 0)
    return answer


def test_a_worker_takes_part_with_its_first_call(instrumentor: TorchprofInstrumentor) -> None:
    server = Server(instrumentor, schedule="active=1000")

    def worker() -> dict[str, Any]:
        answered = 0
        while not is_counting(instrumentor):  # which the first answer does not wait for
            server.answer()
            answered += 1
        server.answer()
        return {"answered": answered + 1, **server.end()}

    in_worker = in_child(worker)
    assert in_worker["answered"] > 1
    assert in_worker == {"answered": in_worker["calls"], "calls": in_worker["calls"], "counts": [True]}
    assert server.end() == {"calls": 0, "counts": [True]}


def test_a_worker_is_told_of_calls_also_where_the_server_is_between_intervals(
    instrumentor: TorchprofInstrumentor,
) -> None:
    before = torch.nn.Module.__call__
    server = Server(instrumentor, interval=3600.0)

    def worker() -> dict[str, Any]:
        server.spans.clear()
        for _ in range(3):
            server.answer()
        return server.end()

    for _ in range(3):
        server.answer()
    assert instrumentor._runtime is not None
    assert instrumentor._sink is not None
    instrumentor._runtime.check()  # as every second
    assert instrumentor._sink.flush(60)
    assert torch.nn.Module.__call__ is before
    assert in_child(worker)["calls"] == 1
    assert server.end()["calls"] == 1


def test_a_worker_that_says_that_it_is_one_is_flushed_by_sigterm(instrumentor: TorchprofInstrumentor) -> None:
    Server(instrumentor)

    def worker() -> list[bool]:
        left_alone = [signal.getsignal(signal.SIGTERM) is signal.SIG_DFL]
        set_mode("both")
        return [*left_alone, signal.getsignal(signal.SIGTERM) is signal.SIG_DFL]

    assert in_child(worker) == [True, False]


class Transformed(Dataset[bool]):
    """Calls a module for each item, and says whether nobody is told of such calls after it."""

    def __init__(self, plain_call: Callable[..., Any]) -> None:
        self._plain_call = plain_call
        self._transform = torch.nn.ReLU()

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> bool:
        self._transform(torch.ones(1))
        return torch.nn.Module.__call__ is self._plain_call


def test_workers_that_load_data_are_left_alone(instrumentor: TorchprofInstrumentor) -> None:
    before = torch.nn.Module.__call__
    Server(instrumentor, schedule="active=1000")
    loader = DataLoader(Transformed(before), num_workers=2, multiprocessing_context="fork")
    assert [bool(item) for item in loader] == [True] * 4
