"""What raises is an error on its span: scopes, calls of modules, batches, as OpenTelemetry has it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
import torch
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from otel_torchprof import Recording, batch, span
from otel_torchprof.exporters import export
from otel_torchprof.importers import load
from otel_torchprof.instrumentor import TorchprofInstrumentor
from tests.support.recorded_ops import record
from tests.support.served_models import spans_of_calls


class RefusedError(Exception):
    """With a message that is nobody's business."""


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)

    def forward(self, sizes: int) -> Any:
        return self.inner(torch.ones(sizes))


OURS = f"{__name__}.RefusedError"


def errors_of(recording: Recording) -> dict[str, str]:
    """Of all events by name, what they ended with."""
    errors = recording.events.error
    return {
        recording.event_name(row): recording.name(int(errors[row])) if len(errors) else ""
        for row in range(len(recording))
    }


def work_that_fails() -> None:
    with span("well"):
        torch.ones(1)
    with pytest.raises(RefusedError), span("outer"), span("inner"):
        raise RefusedError("the password is hunter2")
    with span("around"), pytest.raises(ZeroDivisionError), span("caught within"):
        print(1 / 0)


def test_scopes_that_raise_say_with_what(tmp_path: Path) -> None:
    recording = record(work_that_fails)
    wanted = {
        "well": "",
        "outer": OURS,
        "inner": OURS,
        "around": "",
        "caught within": "ZeroDivisionError",
    }
    assert wanted.items() <= errors_of(recording).items()
    recording.save(tmp_path / "saved.tprof")
    assert errors_of(Recording.open(tmp_path / "saved.tprof")) == errors_of(recording)
    export(recording, tmp_path / "spans.jsonl")
    again, _report = load(tmp_path / "spans.jsonl")
    assert wanted.items() <= errors_of(again).items()
    assert b"hunter2" not in (tmp_path / "saved.tprof").read_bytes() + (tmp_path / "spans.jsonl").read_bytes()


def interrupted() -> None:
    with span("interrupted"):
        raise KeyboardInterrupt


def exhausted() -> None:
    with span("exhausted"):
        next(iter([]))


def cancelled() -> None:
    @span("cancelled")
    async def wait() -> None:
        await asyncio.Event().wait()  # that nobody sets

    async def run() -> None:
        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        await task

    asyncio.run(run())


def closed() -> None:
    @span("closed")
    def count() -> Generator[int, None, None]:
        yield 1
        yield 2

    list(count())  # to its end
    begun = count()
    next(begun)
    begun.close()
    raise StopIteration


@pytest.mark.parametrize("work", [interrupted, exhausted, cancelled, closed])
def test_what_is_no_error_is_none(work: Callable[[], None]) -> None:
    def run() -> None:
        with pytest.raises((KeyboardInterrupt, StopIteration, asyncio.CancelledError)):
            work()

    assert set(errors_of(record(run)).values()) == {""}


@pytest.mark.parametrize("is_coroutine", [False, True])
def test_decorated_functions_that_raise_say_with_what(is_coroutine: bool) -> None:
    @span("function")
    def function() -> None:
        raise RefusedError

    @span("function")
    async def coroutine() -> None:
        await asyncio.sleep(0)
        raise RefusedError

    def run() -> None:
        with pytest.raises(RefusedError):
            asyncio.run(coroutine()) if is_coroutine else function()

    recording = record(run)
    errors = [recording.name(int(error)) for error in recording.events.error]
    assert errors.count(OURS) == 1


def test_a_type_whose_name_lies_is_no_harm() -> None:
    named = type("Odd", (Exception,), {"__module__": 7, "__qualname__": "\ud800"})

    def run() -> None:
        with pytest.raises(named), span("odd"):
            raise named

    assert errors_of(record(run))["odd"] == "Odd"


def test_calls_of_modules_that_raise_say_with_what() -> None:
    model = Model()

    def run() -> None:
        model(2)
        with pytest.raises(RuntimeError, match="shapes"):
            model(3)

    recording = record(run, with_modules=True)
    calls = [
        (recording.event_name(row), recording.name(int(recording.events.error[row])))
        for row in range(len(recording))
        if recording.event_name(row) in {"Model", "Linear"}
    ]
    assert calls == [("Model", ""), ("Linear", ""), ("Model", "RuntimeError"), ("Linear", "RuntimeError")]


@pytest.fixture
def exporter(instrumentor: TorchprofInstrumentor) -> InMemorySpanExporter:
    return spans_of_calls(instrumentor, redact=lambda _text: None)


def test_a_request_that_fails_is_an_error_in_its_batch_and_its_call(
    exporter: InMemorySpanExporter, instrumentor: TorchprofInstrumentor
) -> None:
    tracer = TracerProvider().get_tracer("server")
    model = Model()

    def refuse() -> None:
        model(2)
        raise RefusedError("the password is hunter2")

    with pytest.raises(RefusedError), batch([tracer.start_span("refused")]):
        refuse()
    with pytest.raises(RuntimeError), batch([tracer.start_span("failed")]):
        model(3)
    with batch([tracer.start_span("answered")]):
        model(2)
    instrumentor.uninstrument()
    spans = exporter.get_finished_spans()
    assert [said(one) for one in spans if one.name == "torch.batch"] == [
        (StatusCode.ERROR, OURS, OURS),
        (StatusCode.ERROR, "RuntimeError", "RuntimeError"),
        (StatusCode.UNSET, None, None),
    ]
    assert [said(one)[1:] for one in spans if one.name == "Model"] == [
        (None, None),
        ("RuntimeError", "RuntimeError"),
        (None, None),
    ]
    assert not any("hunter2" in one.to_json() for one in spans)


def said(of: ReadableSpan) -> tuple[StatusCode, str | None, object]:
    return of.status.status_code, of.status.description, (of.attributes or {}).get("error.type")
