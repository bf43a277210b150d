"""Recording and counting end by themselves, by a file and by a call; `torchprof.state` shows all of it."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol
from urllib.request import urlopen

import pytest
from opentelemetry.sdk.metrics.export import NumberDataPoint
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import otel_torchprof
from otel_torchprof.config import Mode, Settings
from otel_torchprof.instrumentor import TorchprofInstrumentor
from otel_torchprof.live import runtime as runtime_module
from otel_torchprof.live.overhead_guard import WINDOW_NS, WINDOWS_TO_TRIP
from otel_torchprof.live.runtime import Runtime
from otel_torchprof.metrics.families import HistogramPoint, MetricFamily, NumberPoint
from otel_torchprof.recorder.schedule import CycleSchedule
from otel_torchprof.recorder.steps import process_steps
from otel_torchprof.semconv_metrics import (
    OP_CALLS,
    OVERHEAD,
    RECORDER_STATE,
    RECORDER_STATES,
    STATE,
    STEP_DURATION,
)
from otel_torchprof.telemetry.metric_output import MetricOutput
from otel_torchprof.telemetry.span_sink import SpanSink
from tests.integration.programs.plain_loop import train
from tests.support.metric_families import KeepingExporter, metrics_of
from tests.support.otlp_metrics_sink import OtlpMetricsSink
from tests.support.ports import free_ports, listens

TIMEOUT_S = 60.0
# Above this is every window in which an op was counted, and below the other every one.
NOTHING, EVERYTHING = 1e-12, 1.0


class NoChecks:
    """Stands in for the thread that checks every second: the test does so."""

    def __init__(self, check: Callable[[], None]) -> None:
        self.running = False

    def start(self) -> None:
        self.running = True

    def stop(self) -> None:
        self.running = False


class Program:
    """An instrumented program with a clock of the test.

    With `prometheus_port` metrics go there, and where the environment says.
    """

    def __init__(self, settings: Settings, prometheus_port: int | None = None) -> None:
        self.spans = InMemorySpanExporter()
        self.exporter = KeepingExporter()
        self.now_ns = 0
        sink = SpanSink(
            max_spans_per_trace=0, max_trace_bytes=0, min_span_duration_ns=0, span_exporter=self.spans
        )
        environ: Mapping[str, str] = {} if prometheus_port is None else os.environ
        exporter = self.exporter if prometheus_port is None else None
        self.runtime = Runtime(
            settings,
            sink,
            lambda collect: MetricOutput(
                collect, sink.resource, environ, exporter=exporter, prometheus_port=prometheus_port
            ),
            clock_ns=lambda: self.now_ns,
        )
        self.runtime.start()

    def run_windows(self, windows: int) -> None:
        """Train in each window, then check."""
        for _ in range(windows):
            train(2)
            self.now_ns += WINDOW_NS
            self.runtime.check()

    @property
    def collected(self) -> list[MetricFamily]:
        return self.runtime.metrics.collect()

    @property
    def state(self) -> str:
        return state_in(self.collected)

    @property
    def calls(self) -> int:
        return sum(int(p.value) for p in points(self.collected, OP_CALLS) if isinstance(p, NumberPoint))

    @property
    def steps(self) -> int:
        return sum(p.count for p in points(self.collected, STEP_DURATION) if isinstance(p, HistogramPoint))


def points(families: list[MetricFamily], name: str) -> list[object]:
    return [point for family in families if family.metric.name == name for point in family.points]


def state_in(families: list[MetricFamily]) -> str:
    """The one state whose value is 1."""
    (state,) = [
        str(point.attributes[STATE])
        for point in points(families, RECORDER_STATE)
        if isinstance(point, NumberPoint) and point.value == 1
    ]
    return state


class Instrument(Protocol):
    def __call__(self, settings: Settings, prometheus_port: int | None = None) -> Program: ...


@pytest.fixture
def instrumented(monkeypatch: pytest.MonkeyPatch) -> Iterator[Instrument]:
    monkeypatch.setattr(runtime_module, "PeriodicCheck", NoChecks)
    process_steps.start_over()
    programs: list[Program] = []

    def make(settings: Settings, prometheus_port: int | None = None) -> Program:
        programs.append(Program(settings, prometheus_port))
        return programs[-1]

    yield make
    for program in programs:
        program.runtime.shutdown(TIMEOUT_S)
    process_steps.start_over()


def test_over_the_bound_for_three_windows_it_records_and_counts_no_more(
    instrumented: Instrument, caplog: pytest.LogCaptureFixture
) -> None:
    program = instrumented(Settings(max_overhead=NOTHING, schedule=CycleSchedule(active=1)))
    program.run_windows(WINDOWS_TO_TRIP - 1)
    assert (program.state, caplog.messages) == ("both", [])
    program.run_windows(1)
    assert program.state == "tripped"
    (line,) = caplog.messages
    assert line.startswith(
        "otel-torchprof: records no step and counts no op any more: in 3 windows of 30 s in a row measuring "
        "took more of the time than OTEL_PYTHON_TORCHPROF_MAX_OVERHEAD=1e-12, "
    )
    assert line.endswith(" in the last one; otel_torchprof.set_mode('both') begins again")

    calls, steps = program.calls, program.steps
    assert program.runtime._sink.flush(TIMEOUT_S)
    spans = len(program.spans.get_finished_spans())
    program.run_windows(2 * WINDOWS_TO_TRIP)
    # Steps cost next to nothing, and the metrics go on to say that it tripped.
    assert program.steps > steps
    assert (program.calls, program.state, len(caplog.messages)) == (calls, "tripped", 1)
    assert program.runtime._sink.flush(TIMEOUT_S)
    assert len(program.spans.get_finished_spans()) == spans > 0
    assert program.runtime.metric_output.flush(TIMEOUT_S)
    data = metrics_of(program.exporter.exported[-1])[RECORDER_STATE].data.data_points
    assert {p.attributes[STATE]: p.value for p in data} == {  # type: ignore[union-attr,index]
        "both": 0,
        "metrics": 0,
        "trace": 0,
        "off": 0,
        "tripped": 1,
    }

    program.runtime.set_mode(Mode.BOTH)
    assert program.state == "both"
    program.run_windows(1)
    assert program.calls > calls
    assert program.runtime._sink.flush(TIMEOUT_S)
    assert len(program.spans.get_finished_spans()) > spans
    program.run_windows(WINDOWS_TO_TRIP - 1)
    assert (program.state, len(caplog.messages)) == ("tripped", 2)
    program.runtime.set_mode(Mode.OFF)
    assert program.state == "off"


@pytest.mark.parametrize("mode", [Mode.METRICS, Mode.TRACE])
def test_one_half_alone_trips_too(mode: Mode, instrumented: Instrument) -> None:
    program = instrumented(Settings(mode=mode, max_overhead=NOTHING, schedule=CycleSchedule(active=10**6)))
    program.run_windows(WINDOWS_TO_TRIP)
    assert program.state == "tripped"
    assert program.runtime._sink.flush(TIMEOUT_S)
    # The window under way was sent.
    assert bool(program.spans.get_finished_spans()) is (mode is Mode.TRACE)


def test_below_the_bound_nothing_happens(instrumented: Instrument, caplog: pytest.LogCaptureFixture) -> None:
    program = instrumented(Settings(mode=Mode.METRICS, max_overhead=EVERYTHING))
    program.run_windows(3 * WINDOWS_TO_TRIP)
    assert (program.state, caplog.messages) == ("metrics", [])
    (overhead,) = points(program.collected, OVERHEAD)
    assert isinstance(overhead, NumberPoint)
    assert 0 < overhead.value < EVERYTHING


def test_the_modes_and_the_kill_switch_are_seen_in_the_state(
    instrumented: Instrument,
) -> None:
    program = instrumented(Settings(max_overhead=EVERYTHING))
    for mode in Mode:
        program.runtime.set_mode(mode)
        assert program.state == mode.value
    assert not process_steps.listening


def test_a_file_switches_everything_off_for_as_long_as_it_is_there(
    tmp_path: Path, instrumented: Instrument, caplog: pytest.LogCaptureFixture
) -> None:
    off_file = tmp_path / "off"
    off_file.touch()
    program = instrumented(Settings(mode=Mode.METRICS, max_overhead=EVERYTHING, off_file=off_file))
    assert not process_steps.listening
    program.run_windows(1)
    assert (program.state, program.calls, program.steps) == ("off", 0, 0)

    off_file.unlink()
    program.runtime.check()
    program.runtime.check()
    train(3)
    calls = program.calls
    assert (program.state, program.steps) == ("metrics", 2)
    assert calls > 0

    off_file.touch()
    program.runtime.check()
    train(3)
    assert (program.state, program.calls, program.steps) == ("off", calls, 2)
    program.runtime.set_mode(Mode.BOTH)
    assert (program.state, process_steps.listening) == ("off", False)

    off_file.unlink()
    program.runtime.check()
    train(1)
    assert program.state == "both"
    assert program.calls > calls
    assert caplog.messages == [
        f"otel-torchprof: off, for as long as there is {off_file}",
        f"otel-torchprof: on again, as {off_file} is gone",
        f"otel-torchprof: off, for as long as there is {off_file}",
        f"otel-torchprof: on again, as {off_file} is gone",
    ]


def test_what_is_off_says_so_to_scrapers_and_exporters(tmp_path: Path) -> None:
    off_file = tmp_path / "off"
    off_file.touch()
    (port,) = free_ports(1)
    exporter = KeepingExporter()
    process_steps.start_over()
    instrumentor = TorchprofInstrumentor()
    instrumentor.instrument(
        mode="metrics",
        off_file=str(off_file),
        prometheus_port=port,
        metric_exporter=exporter,
        max_overhead=1,
    )
    try:
        assert scraped_states(port) == {"off"}
        wait_until(lambda: exported_states(exporter) == ["off"])
        off_file.unlink()
        wait_for_state(instrumentor, "metrics")
        assert scraped_states(port) == {"metrics"}
        otel_torchprof.set_mode("off")
        assert scraped_states(port) == {"off"}
        wait_until(lambda: len(exporter.exported) > 1 and exported_states(exporter)[-1] == "off")
    finally:
        instrumentor.uninstrument()
        process_steps.start_over()
    assert not listens(port)


def test_every_state_arrives_by_otlp_and_by_prometheus(
    instrumented: Instrument, monkeypatch: pytest.MonkeyPatch
) -> None:
    (port,) = free_ports(1)
    with OtlpMetricsSink() as sink:
        monkeypatch.setenv("OTEL_METRICS_EXPORTER", "otlp")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.endpoint)
        program = instrumented(Settings(max_overhead=NOTHING, prometheus_port=port), port)
        program.run_windows(1)
        states = [program.state]

        def arrives(state: str) -> None:
            assert program.runtime.metric_output.flush(TIMEOUT_S)
            assert (received_state(sink), scraped_states(port)) == (state, {state})
            states.append(state)

        arrives("both")
        for mode in (Mode.METRICS, Mode.TRACE, Mode.OFF, Mode.BOTH):  # while it runs
            program.runtime.set_mode(mode)
            arrives(mode.value)
        program.run_windows(WINDOWS_TO_TRIP)
        arrives("tripped")
        program.runtime.set_mode(Mode.BOTH)  # which is what the log says
        arrives("both")
    assert set(states) == set(RECORDER_STATES)


def test_a_mode_without_metrics_is_exported_once(
    instrumented: Instrument, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = instrumented(Settings(max_overhead=EVERYTHING))
    for mode in (Mode.TRACE, Mode.METRICS, Mode.OFF):
        program.runtime.set_mode(mode)
        if mode is not Mode.METRICS:
            wait_until(lambda: exported_states(program.exporter)[-1:] == [mode.value])  # noqa: B023
    assert exported_states(program.exporter) == ["trace", "off"]


def received_state(sink: OtlpMetricsSink) -> str:
    """The one state whose value is 1 in the last export."""
    (state,) = [
        str(attribute.value.string_value)
        for point in sink.named(RECORDER_STATE)[-1].gauge.data_points
        if point.as_int == 1 or point.as_double == 1
        for attribute in point.attributes
    ]
    return state


def exported_states(exporter: KeepingExporter) -> list[object]:
    return [
        point.attributes[STATE]
        for data in exporter.exported
        for point in metrics_of(data)[RECORDER_STATE].data.data_points
        if isinstance(point, NumberDataPoint) and point.value and point.attributes
    ]


def scraped_states(port: int) -> set[str]:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT_S) as response:
        page = response.read().decode()
    return set(re.findall(r'^torchprof_state\{.*torchprof_state="(\w+)".*\} 1\.0$', page, re.MULTILINE))


def test_what_tripped_in_the_parent_has_not_in_its_child(
    instrumented: Instrument,
) -> None:
    program = instrumented(Settings(mode=Mode.METRICS, max_overhead=NOTHING))
    program.run_windows(WINDOWS_TO_TRIP)
    child = os.fork()
    if child == 0:
        passed = False
        try:
            process_steps.start_over()
            program.runtime.start_over_in_child()
            train(3)
            passed = program.state == "metrics" and program.calls > 0
            program.run_windows(WINDOWS_TO_TRIP)
            passed = passed and program.state == "tripped"
        finally:
            os._exit(0 if passed else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert program.state == "tripped"


def test_the_file_is_watched_while_the_program_runs(tmp_path: Path) -> None:
    off_file = tmp_path / "off"
    process_steps.start_over()
    instrumentor = TorchprofInstrumentor()
    instrumentor.instrument(
        mode="metrics", off_file=str(off_file), max_overhead=1, metric_exporter=KeepingExporter()
    )
    try:
        for change, state in ((off_file.touch, "off"), (off_file.unlink, "metrics")):
            change()
            wait_for_state(instrumentor, state)
        otel_torchprof.set_mode("off")
        wait_until(lambda: "otel-torchprof-guard" not in {one.name for one in threading.enumerate()})
    finally:
        instrumentor.uninstrument()
        process_steps.start_over()


def wait_for_state(instrumentor: TorchprofInstrumentor, state: str) -> None:
    wait_until(lambda: state_in(list(instrumentor.collect_metrics())) == state)


def wait_until(holds: Callable[[], bool]) -> None:
    ticker = threading.Event()
    for _ in range(int(TIMEOUT_S / 0.02)):
        if holds():
            return
        ticker.wait(0.02)
    raise AssertionError(f"not within {TIMEOUT_S:.0f} s")
