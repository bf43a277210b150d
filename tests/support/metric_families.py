"""Metric families made by hand, and exporters of metrics that keep what they are given."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.sdk.metrics import Histogram as HistogramInstrument
from opentelemetry.sdk.metrics import ObservableCounter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricsData,
)
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation

from otel_torchprof.metrics.families import (
    Exemplar,
    ExponentialBuckets,
    HistogramPoint,
    MetricFamily,
    NumberPoint,
)
from otel_torchprof.semconv_metrics import (
    METRIC_BY_NAME,
    OP_CALLS,
    OP_NAME,
    PHASE,
    STEP_BOUNDS_S,
    STEP_DURATION,
    STEP_NUMBER,
    STEP_PHASE,
)

START_NS = 1_000
EXEMPLAR = Exemplar(0.25, 5_000, bytes(range(16)), bytes(range(8)))


def op_calls(value: int, name: str = "aten::add", *, start_ns: int = START_NS) -> MetricFamily:
    point = NumberPoint({OP_NAME: name, PHASE: "forward"}, value, start_ns)
    return MetricFamily(METRIC_BY_NAME[OP_CALLS], [point])


def step_number(value: int) -> MetricFamily:
    return MetricFamily(METRIC_BY_NAME[STEP_NUMBER], [NumberPoint({}, value, START_NS)])


def step_durations(
    counts: Mapping[int, int],
    *,
    exemplars: Sequence[Exemplar] = (),
    exponential: ExponentialBuckets | None = None,
) -> MetricFamily:
    """Counts by index of their bucket; durations are the upper bounds, twice the last one above it."""
    buckets = [counts.get(index, 0) for index in range(len(STEP_BOUNDS_S) + 1)]
    values_s = (*STEP_BOUNDS_S, 2 * STEP_BOUNDS_S[-1])
    durations = [values_s[index] for index, count in counts.items() for _ in range(count)]
    point = HistogramPoint(
        {STEP_PHASE: "train"},
        buckets,
        sum(durations),
        len(durations),
        min(durations, default=None),
        max(durations, default=None),
        START_NS,
        exponential=exponential,
        exemplars=exemplars,
    )
    return MetricFamily(METRIC_BY_NAME[STEP_DURATION], [point])


class KeepingExporter(MetricExporter):
    """Keeps what arrives. `fails` answers with a failure, `raises` raises; a closed `gate` makes it wait."""

    def __init__(self, *, delta: bool = False, exponential: bool = False) -> None:
        temporality = AggregationTemporality.DELTA if delta else AggregationTemporality.CUMULATIVE
        super().__init__(
            preferred_temporality={ObservableCounter: temporality, HistogramInstrument: temporality},
            preferred_aggregation=(
                {HistogramInstrument: ExponentialBucketHistogramAggregation()} if exponential else {}
            ),
        )
        self.exported: list[MetricsData] = []
        self.tried = 0
        self.fails = False
        self.raises = False
        self.timeouts_ms: list[float] = []
        self.threads: list[str] = []
        self.changed = threading.Condition()
        self.gate = threading.Event()
        self.gate.set()
        self.closed = 0

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **_: Any
    ) -> MetricExportResult:
        self.threads.append(threading.current_thread().name)
        self.timeouts_ms.append(timeout_millis)
        with self.changed:
            self.tried += 1
            self.changed.notify_all()
        self.gate.wait()
        if self.raises:
            raise OSError("out of order")
        if self.fails:
            return MetricExportResult.FAILURE
        with self.changed:
            self.exported.append(metrics_data)
            self.changed.notify_all()
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 30_000, **_: Any) -> None:
        self.closed += 1
        self.gate.set()

    def wait_for_exports(self, count: int, timeout_s: float = 60.0) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.exported) >= count, timeout_s)

    def wait_for_tries(self, count: int, timeout_s: float = 60.0) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.tried >= count, timeout_s)


def metrics_of(data: MetricsData) -> dict[str, Metric]:
    """The metrics by name; no name may come twice."""
    metrics = [
        metric
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    ]
    by_name = {metric.name: metric for metric in metrics}
    assert len(by_name) == len(metrics)
    return by_name
