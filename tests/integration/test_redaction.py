"""What a program's authors wrote in words leaves it only as their redaction hook has it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import otel_torchprof
from otel_torchprof.config import SettingError
from otel_torchprof.instrumentor import TorchprofInstrumentor
from otel_torchprof.profiler import otlp_trace_handler, profile
from otel_torchprof.recording import Recording
from otel_torchprof.semconv import INPUT_VALUES
from otel_torchprof.semconv_metrics import OP_CALLS, TEXTS_REDACTED
from tests.support.metric_families import KeepingExporter, metrics_of

SECRET = "hunter2"
SCHEDULE = "skip_first=1,active=2,repeat=1"

LIBRARY = torch.library.Library("redaction_test", "DEF")
LIBRARY.define("tagged(Tensor x, str tag, str[] tags) -> Tensor")
LIBRARY.impl("tagged", lambda x, tag, tags: x.cos(), "CompositeExplicitAutograd")


def star_out(text: str) -> str:
    return text.replace(SECRET, "***")


def train(steps: int = 5) -> None:
    parameter = torch.nn.Parameter(torch.ones(4, 4))
    optimizer = torch.optim.SGD([parameter])
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.profiler.record_function(f"customer {SECRET}"):
            with otel_torchprof.span(f"inner {SECRET}"):
                loss = parameter.sum()
            loss.backward()
        with torch.profiler.record_function("arguments", SECRET):
            torch.ops.redaction_test.tagged(parameter.detach(), f"for {SECRET}", ["a", SECRET])
        optimizer.step()


class Outputs:
    """What a training sends with these options."""

    def __init__(self, instrumentor: TorchprofInstrumentor, **options: Any) -> None:
        self.exporter, self.metrics = InMemorySpanExporter(), KeepingExporter()
        instrumentor.instrument(
            schedule=SCHEDULE,
            record_shapes=True,
            metrics_sampling="full",
            span_exporter=self.exporter,
            metric_exporter=self.metrics,
            **options,
        )
        train()
        instrumentor.uninstrument()
        self.spans = self.exporter.get_finished_spans()
        assert self.names.count("torch.step") == 2

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.spans]

    @property
    def text(self) -> str:
        return "".join(
            [span.to_json() for span in self.spans] + [str(data) for data in self.metrics.exported]
        )

    def counted(self, name: str, attribute: str) -> dict[Any, Any]:
        metrics = metrics_of(self.metrics.exported[-1])
        data: Any = metrics[name].data if name in metrics else None
        return (
            {} if data is None else {point.attributes[attribute]: point.value for point in data.data_points}
        )


def test_names_and_arguments_as_the_hook_has_them(instrumentor: TorchprofInstrumentor) -> None:
    outputs = Outputs(instrumentor, redact=star_out, patterns=True, with_stack=True, with_modules=True)
    assert SECRET not in outputs.text
    assert {"customer ***", "inner ***", "redaction_test::tagged"} <= set(outputs.names)
    values = [
        span.attributes[INPUT_VALUES]
        for span in outputs.spans
        if span.name == "redaction_test::tagged" and span.attributes
    ]
    assert values == ['[null,"for ***",["a","***"]]'] * 2
    calls = outputs.counted(OP_CALLS, "torch.op.name")
    assert {"customer ***", "inner ***", "redaction_test::tagged"} <= set(calls)
    assert outputs.counted(TEXTS_REDACTED, "torchprof.reason") == {}


def test_without_a_hook_they_are_as_written(instrumentor: TorchprofInstrumentor) -> None:
    outputs = Outputs(instrumentor)
    assert {f"customer {SECRET}", f"inner {SECRET}"} <= set(outputs.names)
    assert f"customer {SECRET}" in outputs.counted(OP_CALLS, "torch.op.name")
    assert TEXTS_REDACTED not in metrics_of(outputs.metrics.exported[-1])


def test_without_a_hook_no_recording_is_copied(
    instrumentor: TorchprofInstrumentor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(Recording, "redacted")
    assert f"customer {SECRET}" in Outputs(instrumentor).names


def test_names_of_what_is_folded_away(instrumentor: TorchprofInstrumentor) -> None:
    outputs = Outputs(instrumentor, redact=star_out, max_spans_per_trace=2)
    assert SECRET not in outputs.text
    assert "***" in "".join(span.to_json() for span in outputs.spans)


def test_on_no_thread_of_the_program(instrumentor: TorchprofInstrumentor) -> None:
    asked: list[tuple[str, str]] = []

    def hook(text: str) -> str:
        asked.append((text, threading.current_thread().name))
        return star_out(text)

    Outputs(instrumentor, redact=hook)
    texts = [text for text, _thread in asked]
    assert len(texts) == len(set(texts))
    assert {f"customer {SECRET}", f"inner {SECRET}", f"for {SECRET}", SECRET} <= set(texts)
    assert threading.current_thread().name not in {thread for _text, thread in asked}


def _raises(text: str) -> str:
    raise RuntimeError(text)


@pytest.mark.parametrize(
    ("hook", "reason"),
    [(_raises, "hook_failed"), (lambda _text: None, "hook_refused"), ("no_such:hook", "hook_missing")],
)
def test_a_hook_that_gives_nothing(
    hook: Any, reason: str, instrumentor: TorchprofInstrumentor, caplog: pytest.LogCaptureFixture
) -> None:
    outputs = Outputs(instrumentor, redact=hook)
    assert SECRET not in outputs.text + caplog.text
    assert "redacted" in outputs.names
    assert not any("customer" in name for name in outputs.names)
    assert outputs.counted(TEXTS_REDACTED, "torchprof.reason")[reason] >= 3
    assert len([record for record in caplog.records if "redaction hook" in record.getMessage()]) <= 1


def test_cycles_of_a_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp_file")
    monkeypatch.setenv("OTEL_PYTHON_TORCHPROF_OTLP_FILE", str(tmp_path / "spans.jsonl"))
    for given, variable in ((star_out, None), (None, f"{__name__}:star_out")):
        if variable is not None:
            monkeypatch.setenv("OTEL_PYTHON_TORCHPROF_REDACT", variable)
        with profile(on_trace_ready=otlp_trace_handler(redact=given), record_shapes=True):
            train(1)
    written = (tmp_path / "spans.jsonl").read_text()
    assert written.count('"customer ***"') == 2
    assert SECRET not in written


def test_a_name_of_no_function_is_refused_for_a_profile() -> None:
    with pytest.raises(SettingError, match=r"package\.module:function"):
        otlp_trace_handler(redact="star_out")
