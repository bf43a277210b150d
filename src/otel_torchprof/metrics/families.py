"""Metrics at one moment, as plain data: every sink writes the same families.

All sums and histograms are cumulative since `start_unix_ns` of their point; a sink that wants differences
makes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from otel_torchprof.semconv_metrics import Metric

Attributes = Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class Exemplar:
    """One measurement, with the span in which it was made. Ids are 16 and 8 bytes."""

    value: float
    unix_ns: int
    trace_id: bytes
    span_id: bytes


@dataclass(frozen=True, slots=True)
class NumberPoint:
    """The value of a counter or a gauge."""

    attributes: Attributes
    value: int | float
    start_unix_ns: int
    exemplars: Sequence[Exemplar] = ()


@dataclass(frozen=True, slots=True)
class ExponentialBuckets:
    """Base-2 exponential buckets as OpenTelemetry has them: bucket i holds (b^i, b^(i+1)], b = 2^2^-scale.

    `counts[0]` is of bucket `offset`.
    """

    scale: int
    zero_count: int
    offset: int
    counts: Sequence[int]


@dataclass(frozen=True, slots=True)
class HistogramPoint:
    """A distribution. `bucket_counts` has one more item than the metric's `bounds`: what is above the last.

    A bucket holds what is greater than the bound before it and not greater than its own.
    """

    attributes: Attributes
    bucket_counts: Sequence[int]
    sum: float
    count: int
    min: float | None
    max: float | None
    start_unix_ns: int
    exponential: ExponentialBuckets | None = None
    exemplars: Sequence[Exemplar] = ()


Point = NumberPoint | HistogramPoint


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """One metric with its points, all `NumberPoint`s or, of a histogram, all `HistogramPoint`s."""

    metric: Metric
    points: Sequence[Point] = field(default_factory=tuple)


def count_series(families: Iterable[MetricFamily]) -> int:
    """How many time series they are in Prometheus: of a histogram one a bucket, the sum and the count."""
    return sum(
        len(family.points) * (len(family.metric.bounds) + 3 if family.metric.kind == "histogram" else 1)
        for family in families
    )
