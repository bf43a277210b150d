"""Metric families as the SDK's metrics data, the way one exporter prefers it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from opentelemetry.sdk.metrics import Exemplar as SdkExemplar
from opentelemetry.sdk.metrics import Histogram as HistogramInstrument
from opentelemetry.sdk.metrics import ObservableCounter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Buckets,
    ExponentialHistogram,
    ExponentialHistogramDataPoint,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from otel_torchprof.metrics.families import (
    Exemplar,
    ExponentialBuckets,
    HistogramPoint,
    MetricFamily,
    NumberPoint,
)
from otel_torchprof.semconv import SCHEMA_URL
from otel_torchprof.version import __version__

_SCOPE = InstrumentationScope("otel_torchprof", __version__, SCHEMA_URL)
_DELTA = AggregationTemporality.DELTA
_CUMULATIVE = AggregationTemporality.CUMULATIVE
_NO_BUCKETS = Buckets(offset=0, bucket_counts=[])


@dataclass(frozen=True, slots=True)
class Preferences:
    """How an exporter wants its data."""

    delta_counters: bool = False
    delta_histograms: bool = False
    exponential_histograms: bool = False


def preferences_of(exporter: MetricExporter) -> Preferences:
    """What `exporter` says to the SDK's readers; for OTLP that is what the environment says.

    Our counters are read as they stand, as those of observable counters are: cumulative under `lowmemory`.
    """
    temporality: dict[type, AggregationTemporality] = getattr(exporter, "_preferred_temporality", None) or {}
    aggregation: dict[type, object] = getattr(exporter, "_preferred_aggregation", None) or {}
    return Preferences(
        delta_counters=temporality.get(ObservableCounter) is _DELTA,
        delta_histograms=temporality.get(HistogramInstrument) is _DELTA,
        exponential_histograms=isinstance(
            aggregation.get(HistogramInstrument), ExponentialBucketHistogramAggregation
        ),
    )


def to_metrics_data(
    families: Sequence[MetricFamily], resource: Resource, collected_ns: int, preferences: Preferences
) -> MetricsData:
    """`families`, whose points are already cumulative or differences as `preferences` say.

    Args:
        collected_ns: unix time at which they were collected.
    """
    metrics = [_to_metric(family, collected_ns, preferences) for family in families if family.points]
    scope_metrics = ScopeMetrics(_SCOPE, metrics, SCHEMA_URL)
    return MetricsData([ResourceMetrics(resource, [scope_metrics], resource.schema_url)])


def _to_metric(family: MetricFamily, collected_ns: int, preferences: Preferences) -> Metric:
    data: Sum | Gauge | Histogram | ExponentialHistogram
    numbers = [point for point in family.points if isinstance(point, NumberPoint)]
    histograms = [point for point in family.points if isinstance(point, HistogramPoint)]
    if family.metric.kind == "gauge":
        data = Gauge([_to_number(point, collected_ns) for point in numbers])
    elif family.metric.kind == "counter":
        temporality = _DELTA if preferences.delta_counters else _CUMULATIVE
        data = Sum([_to_number(point, collected_ns) for point in numbers], temporality, is_monotonic=True)
    else:
        temporality = _DELTA if preferences.delta_histograms else _CUMULATIVE
        if preferences.exponential_histograms and all(point.exponential for point in histograms):
            data = ExponentialHistogram(
                [
                    _to_exponential(point, point.exponential, collected_ns)
                    for point in histograms
                    if point.exponential is not None
                ],
                temporality,
            )
        else:
            bounds = family.metric.bounds
            data = Histogram([_to_explicit(point, bounds, collected_ns) for point in histograms], temporality)
    return Metric(family.metric.name, family.metric.meaning, family.metric.unit, data)


def _to_number(point: NumberPoint, collected_ns: int) -> NumberDataPoint:
    return NumberDataPoint(
        attributes=dict(point.attributes),
        start_time_unix_nano=point.start_unix_ns,
        time_unix_nano=collected_ns,
        value=point.value,
        exemplars=[_to_exemplar(exemplar) for exemplar in point.exemplars],
    )


def _to_explicit(point: HistogramPoint, bounds: Sequence[float], collected_ns: int) -> HistogramDataPoint:
    return HistogramDataPoint(
        bucket_counts=point.bucket_counts, explicit_bounds=bounds, **_shared(point, collected_ns)
    )


def _to_exponential(
    point: HistogramPoint, buckets: ExponentialBuckets, collected_ns: int
) -> ExponentialHistogramDataPoint:
    return ExponentialHistogramDataPoint(
        scale=buckets.scale,
        zero_count=buckets.zero_count,
        positive=Buckets(offset=buckets.offset, bucket_counts=buckets.counts),
        negative=_NO_BUCKETS,
        flags=0,
        **_shared(point, collected_ns),
    )


def _shared(point: HistogramPoint, collected_ns: int) -> dict[str, Any]:
    """What both kinds of histogram points say. Extremes that are not known stay None, which is not sent."""
    return {
        "attributes": dict(point.attributes),
        "start_time_unix_nano": point.start_unix_ns,
        "time_unix_nano": collected_ns,
        "count": point.count,
        "sum": point.sum,
        "min": cast(float, point.min),
        "max": cast(float, point.max),
        "exemplars": [_to_exemplar(exemplar) for exemplar in point.exemplars],
    }


def _to_exemplar(exemplar: Exemplar) -> SdkExemplar:
    return SdkExemplar(
        filtered_attributes={},
        value=exemplar.value,
        time_unix_nano=exemplar.unix_ns,
        span_id=int.from_bytes(exemplar.span_id, "big"),
        trace_id=int.from_bytes(exemplar.trace_id, "big"),
    )
