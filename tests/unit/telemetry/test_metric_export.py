"""The export of metrics: on time, at the end, in children, and never in the way."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence

import pytest
from opentelemetry.sdk.metrics.export import MetricExporter
from opentelemetry.sdk.resources import Resource

from otel_torchprof.metrics.families import MetricFamily
from otel_torchprof.semconv_metrics import OP_CALLS
from otel_torchprof.telemetry import metric_export
from otel_torchprof.telemetry.metric_export import MetricExport
from tests.support.metric_families import KeepingExporter, metrics_of, op_calls

LONG_S = 60.0


class Calls:
    """A counter that grows by one at each collection."""

    def __init__(self) -> None:
        self.count = 0
        self.fails = False

    def __call__(self) -> Sequence[MetricFamily]:
        if self.fails:
            raise RuntimeError("no numbers")
        self.count += 1
        return [op_calls(self.count)]


def make_export(
    *exporters: MetricExporter, collect: Calls | None = None, interval_s: float = LONG_S
) -> MetricExport:
    return MetricExport(
        collect or Calls(),
        lambda: exporters,
        lambda: Resource({"service.name": "x"}),
        interval_s=interval_s,
        timeout_s=30.0,
    )


def exported_calls(exporter: KeepingExporter) -> list[int]:
    values: list[int] = []
    for data in exporter.exported:
        metric = metrics_of(data).get(OP_CALLS)
        values += [int(point.value) for point in metric.data.data_points] if metric else []  # type: ignore[union-attr]
    return values


def test_it_exports_on_its_timer_on_a_thread_of_its_own() -> None:
    exporter = KeepingExporter()
    export = make_export(exporter, interval_s=0.01)
    assert not export.is_started
    export.start()
    assert export.is_started
    exporter.wait_for_exports(3)
    assert export.shutdown(LONG_S)
    assert exported_calls(exporter)[:3] == [1, 2, 3]
    assert set(exporter.threads) == {"otel-torchprof-metrics"}
    assert set(exporter.timeouts_ms[:3]) == {30_000.0}
    assert exporter.closed == 1
    assert "otel-torchprof-metrics" not in {thread.name for thread in threading.enumerate()}


def test_the_first_export_may_come_earlier_than_the_others() -> None:
    exporter = KeepingExporter()
    export = MetricExport(
        Calls(),
        lambda: [exporter],
        lambda: Resource({}),
        interval_s=1_000_000.0,
        timeout_s=30.0,
        first_share=1e-9,
    )
    export.start()
    exporter.wait_for_exports(1)
    assert export.shutdown(LONG_S)
    assert exported_calls(exporter) == [1, 2]


def test_shutdown_exports_once_more_and_only_once() -> None:
    exporter = KeepingExporter()
    export = make_export(exporter)
    export.start()
    assert export.shutdown(LONG_S)
    assert export.shutdown(LONG_S)
    assert exported_calls(exporter) == [1]
    assert exporter.closed == 1
    export.start()  # too late
    assert not export.is_started


def test_without_a_thread_shutdown_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_more_threads(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    exporter = KeepingExporter()
    export = make_export(exporter)
    monkeypatch.setattr(threading.Thread, "start", no_more_threads)
    export.start()
    assert export.flush(LONG_S)
    assert export.shutdown(LONG_S)
    assert exported_calls(exporter) == [1, 2]
    assert exporter.closed == 1


def test_never_started_it_exports_nothing() -> None:
    exporter = KeepingExporter()
    assert make_export(exporter).shutdown(LONG_S)
    assert exporter.exported == []


def test_flush_exports_now() -> None:
    exporter = KeepingExporter()
    export = make_export(exporter)
    export.start()
    assert export.flush(LONG_S)
    assert exported_calls(exporter) == [1]
    exporter.fails = True
    assert not export.flush(LONG_S)
    export.shutdown(LONG_S)


def test_paused_it_exports_a_last_time_and_goes_on_when_started() -> None:
    exporter = KeepingExporter(delta=True)
    export = make_export(exporter, interval_s=0.01)
    export.start()
    exporter.wait_for_exports(1)
    export.pause()
    assert not export.is_started
    assert export.flush(LONG_S)
    while_paused = len(exporter.exported)
    assert export.flush(LONG_S)
    assert len(exporter.exported) == while_paused + 1  # the flush itself, and no timer
    export.start()
    exporter.wait_for_exports(while_paused + 3)
    export.shutdown(LONG_S)
    # Differences go on where they were.
    assert set(exported_calls(exporter)) == {1}


def test_one_that_hangs_is_ended_in_time() -> None:
    exporter = KeepingExporter()
    exporter.gate.clear()  # opened by its shutdown alone
    export = make_export(exporter, interval_s=0.001)
    export.start()
    exporter.wait_for_tries(1)
    assert not export.shutdown(0.05)
    assert exporter.closed == 1


@pytest.mark.parametrize("fault", ["fails", "raises"])
def test_a_failure_loses_no_difference_and_is_said_once(fault: str, caplog: pytest.LogCaptureFixture) -> None:
    bad, good = KeepingExporter(delta=True), KeepingExporter(delta=True)
    export = make_export(bad, good)
    export.start()
    export.flush(LONG_S)
    setattr(bad, fault, True)
    assert not export.flush(LONG_S)
    assert not export.flush(LONG_S)
    setattr(bad, fault, False)
    assert export.flush(LONG_S)
    export.shutdown(LONG_S)
    assert exported_calls(bad) == [1, 3, 1]
    assert exported_calls(good) == [1, 1, 1, 1, 1]
    (line,) = [record.message for record in caplog.records if "metrics not exported" in record.message]
    cause = "export returned MetricExportResult.FAILURE" if fault == "fails" else "OSError: out of order"
    assert line == f"otel-torchprof: metrics not exported by KeepingExporter: {cause}"


def test_metrics_that_cannot_be_collected_stop_nothing(caplog: pytest.LogCaptureFixture) -> None:
    exporter = KeepingExporter()
    collect = Calls()
    collect.fails = True
    export = make_export(exporter, collect=collect)
    export.start()
    assert not export.flush(LONG_S)
    assert not export.flush(LONG_S)
    collect.fails = False
    assert export.flush(LONG_S)
    export.shutdown(LONG_S)
    lines = [record.message for record in caplog.records]
    assert lines == ["otel-torchprof: metrics were not collected: RuntimeError: no numbers"]


class LoggingExporter(KeepingExporter):
    """Logs as the SDK's OTLP exporters do when there is no collector."""

    def export(self, *args: object, **kwargs: object) -> object:  # type: ignore[override]
        logging.getLogger(__name__).error("Failed to export metrics to nowhere")
        return super().export(*args, **kwargs)  # type: ignore[arg-type]


def test_what_exporters_log_for_us_is_said_once_and_for_others_always(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "opentelemetry.exporter.made_up"
    monkeypatch.setattr(LoggingExporter, "__module__", name)
    monkeypatch.setitem(globals(), "__name__", name)
    exporter = LoggingExporter()
    exporter.fails = True
    export = make_export(exporter)
    export.start()
    for _ in range(3):
        export.flush(LONG_S)
    export.shutdown(LONG_S)
    exporter.export(None)  # the program's own use of it
    assert [record.message for record in caplog.records] == [
        "otel-torchprof: metrics not exported by LoggingExporter: Failed to export metrics to nowhere",
        "Failed to export metrics to nowhere",
    ]


class RetryingExporter(KeepingExporter):
    """Retries, as the SDK's OTLP exporters do, until it is shut down."""

    def export(self, *args: object, **kwargs: object) -> object:  # type: ignore[override]
        log = logging.getLogger(__name__)
        log.warning("Transient error at http://user:pass@nowhere, retrying in 1.04s. Cause: no s3cret token")
        result = super().export(*args, **kwargs)  # type: ignore[arg-type]
        log.warning("Shutdown in progress, aborting retry.")
        return result


def test_what_was_not_exported_at_the_end_is_said_with_the_cause_and_no_secret(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "opentelemetry.exporter.made_up"
    monkeypatch.setattr(RetryingExporter, "__module__", name)
    monkeypatch.setitem(globals(), "__name__", name)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "a=b,authorization=Bearer%20s3cret")
    exporter = RetryingExporter()
    exporter.fails = True
    exporter.gate.clear()  # opened by its shutdown alone
    monkeypatch.setattr(metric_export, "_CANCEL_GRACE_S", LONG_S)
    export = make_export(exporter, interval_s=0.001)
    export.start()
    exporter.wait_for_tries(1)
    assert not export.shutdown(0.05)
    assert [record.message for record in caplog.records] == [
        "otel-torchprof: the last metrics were not exported within 0.1 s (Transient error at http://nowhere. "
        "Cause: no *** token); OTEL_EXPORTER_OTLP_ENDPOINT says where to send, "
        "OTEL_METRICS_EXPORTER=none sends none"
    ]


def test_a_fork_waits_for_exporters_that_are_being_imported() -> None:
    """A child would have half of a module, and never the rest."""
    has_begun, is_forking = threading.Event(), threading.Event()
    modules: list[str] = []

    def import_exporters() -> Sequence[MetricExporter]:
        has_begun.set()
        assert is_forking.wait(LONG_S)
        modules.extend("part" for _ in range(100_000))
        modules.append("whole")
        return []

    os.register_at_fork(before=is_forking.set)
    export = MetricExport(Calls(), import_exporters, Resource.get_empty, interval_s=LONG_S, timeout_s=30.0)
    export.start()
    assert has_begun.wait(LONG_S)
    child = os.fork()
    if child == 0:
        os._exit(0 if modules[-1:] == ["whole"] else 1)
    _pid, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert export.shutdown(LONG_S)


def test_a_forked_child_starts_anew_and_only_when_asked() -> None:
    exporter = KeepingExporter()
    export = make_export(exporter)
    export.start()
    assert export.flush(LONG_S)
    child = os.fork()
    if child == 0:
        passed = False
        try:
            exporter.exported.clear()
            not_started = not export.is_started
            export.start()
            passed = not_started and export.flush(LONG_S) and export.shutdown(LONG_S)
            passed = passed and len(exporter.exported) == 2
        finally:
            os._exit(0 if passed else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert export.flush(LONG_S)
    assert export.shutdown(LONG_S)
    assert exported_calls(exporter) == [1, 2, 3]
