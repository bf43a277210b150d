"""Calls of models under the spans that caused them, in threads and tasks and across a batch of tokens."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import torch
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased

from otel_torchprof import Recording, batch, span
from otel_torchprof.exporters.otlp.all_spans import plan_recording
from otel_torchprof.instrumentor import TorchprofInstrumentor
from tests.support.served_models import Repeated, ops_by_trace, ops_of_a_call

EVERY_REQUEST = "active=1000"


class Server:
    """A program that serves, instrumented, in this process."""

    def __init__(self, instrumentor: TorchprofInstrumentor, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = options.pop("tracer_provider", None) or TracerProvider()
        self.tracer = self.provider.get_tracer("server")
        self._instrumentor = instrumentor
        settings = {"step": "module", "schedule": EVERY_REQUEST, "mode": "trace"} | options
        instrumentor.instrument(tracer_provider=self.provider, span_exporter=self.exporter, **settings)
        self.model = Repeated().eval()

    def infer(self, times: int) -> torch.Tensor:
        with torch.inference_mode():
            result: torch.Tensor = self.model(times)
        return result

    def sent(self) -> tuple[ReadableSpan, ...]:
        self._instrumentor.uninstrument()
        return self.exporter.get_finished_spans()


@pytest.fixture
def server(instrumentor: TorchprofInstrumentor) -> Server:
    return Server(instrumentor)


def trace_of(request: trace.Span) -> int:
    return request.get_span_context().trace_id


def test_ops_stand_under_the_request(server: Server) -> None:
    with server.tracer.start_as_current_span("request") as request:
        server.infer(3)
        torch.ones(3).cos()  # of no model
    server.infer(0)
    spans = server.sent()
    of_request = [one for one in spans if one.context and one.context.trace_id == trace_of(request)]
    (model,) = (one for one in of_request if one.name == "Repeated")
    assert model.parent is not None
    assert model.parent.span_id == request.get_span_context().span_id
    assert ops_by_trace(of_request)[trace_of(request)] == ops_of_a_call(3)
    assert not any(one.name in ("torch.step", "torch.capture", "aten::cos") for one in spans)


@pytest.mark.parametrize("scope", [span, torch.profiler.record_function])
def test_a_scope_outside_of_calls_belongs_to_its_request(
    scope: Callable[[str], AbstractContextManager[object]], server: Server
) -> None:
    before = vars(torch.profiler.record_function)["__enter__"]
    with server.tracer.start_as_current_span("request") as request:
        server.infer(1)
        with scope("prepare"):
            torch.ones(3).cos()
    with server.tracer.start_as_current_span("another"), scope("too late"):  # which has no recorded call
        torch.ones(3).tan()
    spans = server.sent()
    (prepare,) = (one for one in spans if one.name == "prepare")
    assert prepare.parent is not None
    assert prepare.parent.span_id == request.get_span_context().span_id
    (cos,) = (one for one in spans if one.name == "aten::cos")
    assert cos.parent is not None
    assert prepare.context is not None
    assert (cos.parent.trace_id, cos.parent.span_id) == (trace_of(request), prepare.context.span_id)
    assert not any(one.name in {"too late", "aten::tan"} for one in spans)
    assert vars(torch.profiler.record_function)["__enter__"] is before


def scoped(x: torch.Tensor) -> torch.Tensor:
    with torch.autograd.profiler.record_function("prepare"):
        return x.cos()


@pytest.mark.usefixtures("compiled")
def test_scopes_are_scripted_and_compiled_while_they_are_observed(server: Server) -> None:
    graphs = 0

    def backend(graph: torch.fx.GraphModule, inputs: object) -> Any:
        nonlocal graphs
        graphs += 1
        return graph.forward

    x = torch.ones(3)
    with server.tracer.start_as_current_span("request"):
        server.infer(1)
        scripted = torch.jit.script(scoped)
        compiled = torch.compile(scoped, backend=backend, fullgraph=True)
        results = [scripted(x), compiled(x)]
    server.sent()
    assert all(torch.equal(result, x.cos()) for result in [*results, scripted(x), compiled(x)])
    assert graphs == 1


def test_a_call_outside_any_span_is_a_trace_of_its_own(server: Server) -> None:
    for _ in range(2):
        server.infer(1)
    roots = [one for one in server.sent() if one.parent is None]
    assert [one.name for one in roots] == ["Repeated", "Repeated"]
    assert len({one.context.trace_id for one in roots if one.context}) == 2
    assert set(map(repr, ops_by_trace(server.exporter.get_finished_spans()).values())) == {
        repr(ops_of_a_call(1))
    }


def test_a_request_that_is_not_sampled_is_not_recorded(instrumentor: TorchprofInstrumentor) -> None:
    provider = TracerProvider(sampler=ParentBased(ALWAYS_OFF))
    server = Server(instrumentor, tracer_provider=provider)
    with server.tracer.start_as_current_span("request"):
        server.infer(1)
    server.infer(1)  # a root, which the sampler refuses
    assert server.sent() == ()


def test_requests_in_threads_and_tasks_at_once(server: Server) -> None:
    requests: dict[int, trace.Span] = {}
    together = threading.Barrier(5)

    def in_thread(times: int) -> None:
        with server.tracer.start_as_current_span("request") as request:
            requests[times] = request
            together.wait()
            server.infer(times)
            torch.ones(2).cos()

    def in_pool(times: int, context: contextvars.Context) -> None:
        context.run(server.infer, times)

    async def task(times: int) -> None:
        with server.tracer.start_as_current_span("request") as request:
            requests[times] = request
            with span("handle"):  # stays open while other tasks run
                await asyncio.sleep(0)
                server.infer(times)
                await asyncio.sleep(0)
                await asyncio.to_thread(server.infer, times)

    async def tasks() -> None:
        await asyncio.gather(*(task(times) for times in range(10, 15)))

    threads = [threading.Thread(target=in_thread, args=(times,)) for times in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with ThreadPoolExecutor(2) as pool:
        for times in (6, 7):
            with server.tracer.start_as_current_span("request") as request:
                requests[times] = request
                pool.submit(in_pool, times, contextvars.copy_context()).result()
    asyncio.run(tasks())

    by_trace = ops_by_trace(server.sent())
    assert len(by_trace) == len(requests) == 12
    for times, request in requests.items():
        calls = 2 if times >= 10 else 1
        expected = ops_of_a_call(times)
        found = by_trace[trace_of(request)]
        assert found == {name: count * calls for name, count in expected.items()}


def test_the_tokens_of_a_text_are_one_trace(instrumentor: TorchprofInstrumentor) -> None:
    # One request is recorded: with all of its tokens, and nothing of the next.
    server = Server(instrumentor, schedule="active=1,repeat=1")
    with server.tracer.start_as_current_span("request") as request:
        for _ in range(20):
            server.infer(1)
    with server.tracer.start_as_current_span("request"):
        server.infer(1)
    spans = server.sent()
    assert ops_by_trace(spans).keys() == {trace_of(request)}
    assert sum(one.name == "Repeated" for one in spans) == 20


def test_the_tokens_outside_a_request_are_one_trace_in_a_batch(server: Server) -> None:
    with batch():
        for _ in range(20):
            server.infer(1)
    spans = server.sent()
    (root,) = (one for one in spans if one.parent is None)
    assert root.name == "torch.batch"
    assert {one.context.trace_id for one in spans if one.context} == {root.context and root.context.trace_id}
    assert sum(one.name == "Repeated" for one in spans) == 20


def test_offline_export_agrees_with_what_was_sent(
    instrumentor: TorchprofInstrumentor, tmp_path: Path
) -> None:
    server = Server(instrumentor, recording_dir=str(tmp_path), max_spans_per_trace=0, max_trace_bytes=0)
    with server.tracer.start_as_current_span("request") as request:
        server.infer(2)
    with batch([request]):
        server.infer(1)
    sent = {
        (one.name, one.context.trace_id, one.context.span_id, one.parent and one.parent.span_id)
        for one in server.sent()
        if one.context
    }
    (path,) = tmp_path.glob("*.tprof")
    recording = Recording.open(path)
    resaved = tmp_path / "again"
    recording.save(resaved)
    for copy in (recording, Recording.open(resaved)):
        planned = {
            (one.name, one.trace_id, one.span_id, one.parent_span_id or None)
            for one in plan_recording(copy).spans()
        }
        assert planned == sent


def test_between_intervals_calls_of_modules_are_as_they_were(instrumentor: TorchprofInstrumentor) -> None:
    before = torch.nn.Module.__call__
    server = Server(instrumentor, schedule=None, interval=3600.0)
    assert torch.nn.Module.__call__ is not before
    for _ in range(3):
        with server.tracer.start_as_current_span("request"):
            server.infer(1)
    runtime = instrumentor._runtime
    assert runtime is not None
    runtime.check()  # as every second
    assert torch.nn.Module.__call__ is before
    assert [one.name for one in server.sent() if one.name == "Repeated"] == ["Repeated"]


@pytest.fixture
def compiled() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.usefixtures("compiled")
def test_a_compiled_model_is_compiled_once_and_as_a_whole(instrumentor: TorchprofInstrumentor) -> None:
    graphs = 0

    def backend(graph: torch.fx.GraphModule, inputs: object) -> Any:
        nonlocal graphs
        graphs += 1
        return graph.forward

    model = torch.compile(torch.nn.Sequential(torch.nn.Linear(4, 4)), backend=backend, fullgraph=True)
    with torch.inference_mode():
        model(torch.ones(2, 4))
        server = Server(instrumentor)
        with server.tracer.start_as_current_span("request") as request:
            model(torch.ones(2, 4))
        spans = server.sent()
        model(torch.ones(2, 4))
    assert graphs == 1
    assert ops_by_trace(spans)[trace_of(request)]["aten::addmm"] == 1
