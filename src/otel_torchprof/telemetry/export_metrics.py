"""What became of spans, as metrics."""

from __future__ import annotations

from collections.abc import Mapping

from otel_torchprof.metrics.families import MetricFamily, NumberPoint
from otel_torchprof.semconv_metrics import (
    EXPORT_DROPPED_RECORDINGS,
    EXPORT_FAILED_SPANS,
    EXPORT_RECORDINGS,
    EXPORT_SIZE,
    EXPORT_SPANS,
    METRIC_BY_NAME,
    REASON,
)
from otel_torchprof.telemetry.counters import ExportCounts

_REJECTED = "rejected"  # by the server, in a partial success


def export_families(counts: ExportCounts, start_unix_ns: int) -> list[MetricFamily]:
    """`counts`, which began at `start_unix_ns`."""
    failed = dict(counts.failed_spans)
    if counts.rejected_spans:
        failed[_REJECTED] = counts.rejected_spans
    return [
        _count(EXPORT_SPANS, counts.sent_spans, start_unix_ns),
        _count(EXPORT_SIZE, counts.sent_bytes, start_unix_ns),
        _count(EXPORT_RECORDINGS, counts.exported_recordings, start_unix_ns),
        _by_reason(EXPORT_FAILED_SPANS, failed, start_unix_ns),
        _by_reason(EXPORT_DROPPED_RECORDINGS, counts.dropped_recordings, start_unix_ns),
    ]


def _count(name: str, value: int, start_unix_ns: int) -> MetricFamily:
    return MetricFamily(METRIC_BY_NAME[name], [NumberPoint({}, value, start_unix_ns)])


def _by_reason(name: str, values: Mapping[str, int], start_unix_ns: int) -> MetricFamily:
    points = [NumberPoint({REASON: reason}, value, start_unix_ns) for reason, value in sorted(values.items())]
    return MetricFamily(METRIC_BY_NAME[name], points)
