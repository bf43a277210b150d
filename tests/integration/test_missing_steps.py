"""A program that serves and was not told so: one line says why nothing of it is seen."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from opentelemetry import trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_torchprof import batch
from otel_torchprof.instrumentor import TorchprofInstrumentor
from otel_torchprof.live import missing_steps
from tests.support.metric_families import KeepingExporter
from tests.support.served_models import Repeated


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_steps, "PATIENCE_NS", 0)


def lines_of(
    instrumentor: TorchprofInstrumentor,
    caplog: pytest.LogCaptureFixture,
    *,
    trains: bool = False,
    serves: bool = False,
    **options: Any,
) -> list[str]:
    """What is said of steps while a model is called."""
    instrumentor.instrument(
        span_exporter=InMemorySpanExporter(),
        metric_exporter=KeepingExporter(),
        metrics_sampling="full",
        **options,
    )
    runtime = instrumentor._runtime
    assert runtime is not None
    model = Repeated()
    with caplog.at_level(logging.WARNING, "otel_torchprof"):
        for _ in range(6):
            with batch([trace.INVALID_SPAN]) if serves else nullcontext():
                loss = model(1).sum()
            if trains:
                loss.backward()
            runtime.check()  # as every second
    return [record.getMessage() for record in caplog.records if "no step" in record.getMessage()]


def test_a_server_without_steps_is_told_once(
    instrumentor: TorchprofInstrumentor, caplog: pytest.LogCaptureFixture
) -> None:
    (line,) = lines_of(instrumentor, caplog)
    assert "OTEL_PYTHON_TORCHPROF_STEP=module" in line
    assert "otel_torchprof.step()" in line


@pytest.mark.parametrize(
    ("options", "does"),
    [({"step": "module"}, {}), ({"mode": "metrics"}, {}), ({}, {"trains": True}), ({}, {"serves": True})],
    ids=["its calls are recorded", "no spans are wanted", "its first step lasts", "its batches are recorded"],
)
def test_who_misses_no_steps_is_not_told(
    options: dict[str, Any],
    does: dict[str, bool],
    instrumentor: TorchprofInstrumentor,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with torch.set_grad_enabled(does.get("trains", False)):
        assert lines_of(instrumentor, caplog, **does, **options) == []
