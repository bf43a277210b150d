"""Metrics of a running program: equal to a recording of the same run, in every mode, across forks."""

from __future__ import annotations

import os
import socket
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import torch
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from prometheus_client import CollectorRegistry

import otel_torchprof
from otel_torchprof import Recording
from otel_torchprof.config import SettingError
from otel_torchprof.instrumentor import TorchprofInstrumentor
from otel_torchprof.live import metrics as live_metrics
from otel_torchprof.metrics.families import HistogramPoint, MetricFamily, NumberPoint
from otel_torchprof.metrics.from_recording import families_from_recording
from otel_torchprof.recorder.cuda_memory import DeviceMemory
from otel_torchprof.recorder.steps import process_steps
from otel_torchprof.semconv_metrics import (
    COMPILE_RECOMPILATIONS,
    CPU_COUNT,
    CPU_COUNTER,
    CUDA_DEVICE_INDEX,
    DATALOADER_WAIT,
    DEVICE_MEMORY_LIMIT,
    DEVICE_MEMORY_USAGE,
    EVENTS_RECORDED,
    EXPORT_SPANS,
    MEMORY_OOM,
    MEMORY_STATE,
    OP_CALLS,
    OP_DURATION,
    OP_NAME,
    PHASE,
    PYTHON_GC_PAUSE,
    RECORDER_STATE,
    STATE,
    STEP_DURATION,
    STEP_NUMBER,
    STEP_PHASE,
)
from tests.integration.programs.plain_loop import train
from tests.support.metric_families import KeepingExporter, metrics_of
from tests.support.ports import free_ports
from tests.support.prometheus_text import parse, write
from tests.support.training_loop import run_steps

EVERY_STEP = "active=1"
# Among the busiest names, which have series of their own from the first collection on.
SGD_STEP = "Optimizer.step#SGD.step"


@pytest.fixture
def exporter() -> KeepingExporter:
    return KeepingExporter()


def last_metrics(exporter: KeepingExporter) -> dict[str, Any]:
    """The data of the last export by the name of the metric."""
    return {name: metric.data for name, metric in metrics_of(exporter.exported[-1]).items()}


def by_attribute(data: Any, attribute: str) -> dict[Any, Any]:
    return {
        point.attributes[attribute]: getattr(point, "value", None) or getattr(point, "count", 0)
        for point in data.data_points
    }


def op_calls(families: Sequence[MetricFamily]) -> Counter[tuple[object, object]]:
    return Counter(
        {
            (point.attributes[OP_NAME], point.attributes[PHASE]): int(point.value)
            for family in families
            if family.metric.name == OP_CALLS
            for point in family.points
            if isinstance(point, NumberPoint)
        }
    )


def test_full_counts_equal_a_recording_of_the_same_run(
    instrumentor: TorchprofInstrumentor, exporter: KeepingExporter, tmp_path: Path
) -> None:
    instrumentor.instrument(
        schedule="active=1000",
        metrics_sampling="full",
        recording_dir=str(tmp_path),
        span_exporter=InMemorySpanExporter(),
        metric_exporter=exporter,
    )
    run_steps(5, at_end_of_step=lambda: None)
    instrumentor.uninstrument()
    (path,) = tmp_path.glob("*.tprof")
    expected = op_calls(families_from_recording(Recording.open(path)))
    live = Counter(
        {
            (point.attributes[OP_NAME], point.attributes[PHASE]): int(point.value)
            for point in last_metrics(exporter)[OP_CALLS].data_points
        }
    )
    assert live.total() == expected.total() > 500
    # Both give places to the busiest names, of which a few with almost the same times may differ.
    names = {name for name, _ in live} & {name for name, _ in expected} - {"other"}
    assert len(names) > 12
    for name in names:
        of_name = {phase: count for (one, phase), count in live.items() if one == name}
        assert of_name == {phase: count for (one, phase), count in expected.items() if one == name}, name


def test_steps_waits_and_the_recorder_are_counted(
    instrumentor: TorchprofInstrumentor, exporter: KeepingExporter
) -> None:
    spans = InMemorySpanExporter()
    instrumentor.instrument(
        schedule="skip_first=2,active=1,repeat=1", span_exporter=spans, metric_exporter=exporter
    )
    run_steps(6, at_end_of_step=lambda: None)
    instrumentor.uninstrument()
    data = last_metrics(exporter)
    # Six optimizer steps, of which the first is the end of what came before.
    assert by_attribute(data[STEP_DURATION], STEP_PHASE) == {"train": 5}
    assert by_attribute(data[DATALOADER_WAIT], STEP_PHASE) == {"train": 6}
    assert [point.value for point in data[STEP_NUMBER].data_points] == [6]
    assert [point.value for point in data[EXPORT_SPANS].data_points] == [len(spans.get_finished_spans())]
    assert data[EVENTS_RECORDED].data_points[0].value > len(spans.get_finished_spans())
    assert by_attribute(data[RECORDER_STATE], STATE) == {
        "both": 1,
        "metrics": 0,
        "trace": 0,
        "off": 0,
        "tripped": 0,
    }
    assert len(data[PYTHON_GC_PAUSE].data_points) == 3


def test_counters_of_recorded_steps_add_up(
    instrumentor: TorchprofInstrumentor, exporter: KeepingExporter
) -> None:
    spans = InMemorySpanExporter()
    instrumentor.instrument(
        schedule=EVERY_STEP, counters="page-faults", span_exporter=spans, metric_exporter=exporter
    )
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter])
    kept = []
    for _ in range(3):
        kept.append(torch.ones(2**20))  # kept, so each is memory that was never touched
        (parameter * kept[-1]).sum().backward()
        optimizer.step()
    instrumentor.uninstrument()
    (point,) = last_metrics(exporter)[CPU_COUNT].data_points
    assert dict(point.attributes) == {CPU_COUNTER: "page-faults"}
    assert point.value > 0


def test_what_is_compiled_again_is_counted(
    instrumentor: TorchprofInstrumentor, exporter: KeepingExporter
) -> None:
    def double(tensor: torch.Tensor) -> torch.Tensor:
        return tensor * 2

    instrumentor.instrument(mode="metrics", metric_exporter=exporter)
    compiled = torch.compile(double, backend="eager", dynamic=False)
    for size in (2, 3, 4, 4):
        compiled(torch.ones(size))
    instrumentor.uninstrument()
    assert [point.value for point in last_metrics(exporter)[COMPILE_RECOMPILATIONS].data_points] == [2]


class TwoDevices:
    """Stands in for CUDA's books: of one device it is known how much memory there is."""

    def read(self) -> list[DeviceMemory]:
        return [DeviceMemory(0, 10, 40, 30, 2, 80), DeviceMemory(1, 1, 4, 3, 0, None)]


def test_memory_of_devices_and_its_limit(
    instrumentor: TorchprofInstrumentor, exporter: KeepingExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_metrics, "CudaMemory", TwoDevices)
    instrumentor.instrument(mode="metrics", metric_exporter=exporter)
    instrumentor.uninstrument()
    data = last_metrics(exporter)
    usage = {
        (point.attributes[CUDA_DEVICE_INDEX], point.attributes[MEMORY_STATE]): point.value
        for point in data[DEVICE_MEMORY_USAGE].data_points
    }
    assert usage == {
        (0, "allocated"): 10,
        (0, "reserved"): 40,
        (0, "peak"): 30,
        (1, "allocated"): 1,
        (1, "reserved"): 4,
        (1, "peak"): 3,
    }
    assert by_attribute(data[DEVICE_MEMORY_LIMIT], CUDA_DEVICE_INDEX) == {0: 80}
    assert by_attribute(data[MEMORY_OOM], CUDA_DEVICE_INDEX) == {0: 2, 1: 0}


def exemplar_ids(exporter: KeepingExporter) -> list[tuple[int, int]]:
    points = last_metrics(exporter)[STEP_DURATION].data_points
    return [(exemplar.trace_id, exemplar.span_id) for point in points for exemplar in point.exemplars]


def test_exemplars_name_the_spans_of_steps_that_arrived(
    instrumentor: TorchprofInstrumentor, exporter: KeepingExporter
) -> None:
    spans = InMemorySpanExporter()
    instrumentor.instrument(schedule=EVERY_STEP, span_exporter=spans, metric_exporter=exporter)
    train(4)
    instrumentor.uninstrument()
    delivered = {
        (span.context.trace_id, span.context.span_id)
        for span in spans.get_finished_spans()
        if span.name == "torch.step"
    }
    ids = exemplar_ids(exporter)
    assert ids
    assert set(ids) <= delivered
    for point in last_metrics(exporter)[STEP_DURATION].data_points:
        for exemplar in point.exemplars:
            assert point.min <= exemplar.value <= point.max


class Refusing(SpanExporter):
    def export(self, spans: object) -> SpanExportResult:
        return SpanExportResult.FAILURE


@pytest.mark.parametrize("why", ["not delivered", "not sampled"])
def test_no_exemplar_names_a_span_that_does_not_exist(
    why: str, instrumentor: TorchprofInstrumentor, exporter: KeepingExporter
) -> None:
    instrumentor.instrument(
        schedule=EVERY_STEP,
        span_exporter=Refusing() if why == "not delivered" else InMemorySpanExporter(),
        tracer_provider=TracerProvider(sampler=ALWAYS_OFF) if why == "not sampled" else None,
        metric_exporter=exporter,
    )
    train(4)
    instrumentor.uninstrument()
    assert by_attribute(last_metrics(exporter)[STEP_DURATION], STEP_PHASE) == {"train": 3}
    assert exemplar_ids(exporter) == []


def test_modes_switch_while_the_program_runs(
    instrumentor: TorchprofInstrumentor, exporter: KeepingExporter
) -> None:
    spans = InMemorySpanExporter()
    instrumentor.instrument(
        mode="off",
        schedule=EVERY_STEP,
        metrics_sampling="full",
        span_exporter=spans,
        metric_exporter=exporter,
    )
    assert not process_steps.listening
    train(2)
    assert otel_torchprof.set_mode("metrics")
    train(3)
    assert by_attribute_of_steps() == {"train": 2}
    assert spans.get_finished_spans() == ()
    counted = counted_ops()
    assert otel_torchprof.set_mode("trace")
    train(3)
    assert (by_attribute_of_steps(), counted_ops()) == ({"train": 2}, counted)
    assert otel_torchprof.set_mode("both")
    train(3)
    assert by_attribute_of_steps() == {"train": 4}
    assert counted_ops() > counted
    assert otel_torchprof.set_mode("off")
    assert not process_steps.listening
    assert "otel-torchprof-counts" not in {thread.name for thread in threading.enumerate()}
    counted = counted_ops()
    train(3)
    assert counted_ops() == counted
    instrumentor.uninstrument()
    # Two steps and what came before the first boundary, in each of the two modes with spans.
    assert [span.name for span in spans.get_finished_spans()].count("torch.step") >= 6
    assert by_attribute(last_metrics(exporter)[STEP_DURATION], STEP_PHASE) == {"train": 4}


def by_attribute_of_steps() -> dict[object, int]:
    (family,) = [f for f in TorchprofInstrumentor().collect_metrics() if f.metric.name == STEP_DURATION]
    return {p.attributes[STEP_PHASE]: p.count for p in family.points if isinstance(p, HistogramPoint)}


def counted_ops() -> int:
    return op_calls(TorchprofInstrumentor().collect_metrics()).total()


def test_what_is_not_instrumented_has_no_mode_and_a_word_that_is_none_raises() -> None:
    assert otel_torchprof.set_mode("metrics") is False
    with pytest.raises(SettingError, match="one of both, metrics, trace, off"):
        otel_torchprof.set_mode("all")


def test_the_kill_switch_cannot_be_switched(instrumentor: TorchprofInstrumentor) -> None:
    instrumentor.instrument(enabled=False)
    assert otel_torchprof.set_mode("both") is False
    assert not process_steps.listening


def test_durations_of_ops_on_request(instrumentor: TorchprofInstrumentor, exporter: KeepingExporter) -> None:
    instrumentor.instrument(
        mode="metrics", op_histograms=True, metrics_sampling="full", metric_exporter=exporter
    )
    train(3)
    instrumentor.uninstrument()
    data = last_metrics(exporter)
    calls, durations = (by_attribute(data[name], OP_NAME) for name in (OP_CALLS, OP_DURATION))
    assert durations == calls
    assert calls[SGD_STEP] == 3


def test_the_registry_of_the_application_has_the_same_numbers(
    instrumentor: TorchprofInstrumentor, exporter: KeepingExporter
) -> None:
    registry = CollectorRegistry()
    registry.register(otel_torchprof.prometheus_collector())
    assert write(registry, openmetrics=True) == "# EOF\n"
    instrumentor.instrument(
        mode="metrics",
        metrics_sampling="full",
        metric_exporter=exporter,
        tracer_provider=TracerProvider(resource=Resource({"service.name": "trainer"})),
    )
    train(3)
    scraped = parse(write(registry, openmetrics=True), openmetrics=True)
    instrumentor.uninstrument()
    (info,) = scraped["target"].samples
    assert info.labels["service_name"] == "trainer"
    calls = {
        (sample.labels["torch_op_name"], sample.labels["torch_phase"]): sample.value
        for sample in scraped["torch_op_calls"].samples
    }
    exported = {
        (point.attributes[OP_NAME], point.attributes[PHASE]): point.value
        for point in last_metrics(exporter)[OP_CALLS].data_points
    }
    assert calls == exported
    (count,) = [
        sample.value
        for sample in scraped["torch_step_duration_seconds"].samples
        if sample.name.endswith("_count")
    ]
    assert count == by_attribute(last_metrics(exporter)[STEP_DURATION], STEP_PHASE)["train"] == 2


def test_a_scraped_loop_with_stalled_scrapers_makes_its_steps(instrumentor: TorchprofInstrumentor) -> None:
    (port,) = free_ports(1)
    instrumentor.instrument(mode="metrics", metrics_sampling="full", prometheus_port=port)
    stalled = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
    bodies: list[bytes] = []

    def scrape() -> None:
        for _ in range(5):
            with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as response:
                bodies.append(response.read())

    scrapers = [threading.Thread(target=scrape) for _ in range(2)]
    for scraper in scrapers:
        scraper.start()
    train(20)
    for scraper in scrapers:
        scraper.join(60)
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as response:
        last = parse(response.read().decode(), openmetrics=False)
    for connection in stalled:
        connection.close()
    assert len(bodies) == 10
    assert last["torch_step_number"].samples[0].value == 20
    assert sum(s.value for s in last["torch_op_calls"].samples) == counted_ops() > 20 * 10
    instrumentor.uninstrument()
    with pytest.raises(OSError, match="refused"):
        urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60)


def test_a_forked_child_counts_for_itself_from_its_first_step(
    instrumentor: TorchprofInstrumentor, exporter: KeepingExporter
) -> None:
    instrumentor.instrument(mode="metrics", metrics_sampling="full", metric_exporter=exporter)
    train(3)
    child = os.fork()
    if child == 0:
        passed = False
        try:
            exporter.exported.clear()
            torch.ones(2).add(1)
            silent = counted_ops() == 0
            train(3)
            runtime = instrumentor._runtime
            assert runtime is not None
            arrived = runtime.metric_output.flush(60)
            steps = by_attribute(last_metrics(exporter)[STEP_DURATION], STEP_PHASE)
            passed = silent and arrived and steps == {"train": 2} and counted_ops() > 0
        finally:
            os._exit(0 if passed else 1)
    assert os.waitpid(child, 0)[1] == 0
    train(1)
    instrumentor.uninstrument()
    assert by_attribute(last_metrics(exporter)[STEP_DURATION], STEP_PHASE) == {"train": 3}
