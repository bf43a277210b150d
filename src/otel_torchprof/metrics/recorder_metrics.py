"""What the processor counted in a recording's steps, and how much the recorder saw and lost."""

from __future__ import annotations

import math

from otel_torchprof.analysis.counters import counter_totals, sum_rows
from otel_torchprof.metrics.families import MetricFamily, NumberPoint
from otel_torchprof.recording import Recording
from otel_torchprof.semconv_metrics import (
    CPU_COUNT,
    CPU_COUNTER,
    EVENTS_DROPPED,
    EVENTS_RECORDED,
    METRIC_BY_NAME,
    REASON,
)


def counter_families(recording: Recording, start_unix_ns: int) -> list[MetricFamily]:
    """Counters of all threads in all steps, or of the whole recording where it has no steps."""
    totals = counter_totals(recording)
    values = sum_rows(totals.by_step) if recording.steps else totals.total
    points = [
        NumberPoint({CPU_COUNTER: counter}, round(value), start_unix_ns)
        for counter, value in zip(totals.counters, values.tolist(), strict=True)
        if math.isfinite(value)
    ]
    return [MetricFamily(METRIC_BY_NAME[CPU_COUNT], points)]


def recorder_families(recording: Recording, start_unix_ns: int) -> list[MetricFamily]:
    """Events that are in the recording, and those that are not, by reason."""
    dropped = [
        NumberPoint({REASON: reason}, count, start_unix_ns)
        for reason, count in recording.drops.items()
        if count
    ]
    recorded = NumberPoint({}, len(recording), start_unix_ns)
    return [
        MetricFamily(METRIC_BY_NAME[EVENTS_RECORDED], [recorded]),
        MetricFamily(METRIC_BY_NAME[EVENTS_DROPPED], dropped),
    ]
