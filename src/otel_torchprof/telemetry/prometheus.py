"""Metric families for the registries of `prometheus_client`, with units and exemplars.

The library leaves exemplars and units out of the classic text format; scrapers that ask for OpenMetrics get
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from prometheus_client.core import Metric as PrometheusMetric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar as PrometheusExemplar

from otel_torchprof.metrics.families import Exemplar, HistogramPoint, MetricFamily, NumberPoint
from otel_torchprof.semconv_metrics import METRICS, Metric
from otel_torchprof.telemetry.prometheus_names import prometheus_family_name, prometheus_label

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

_UNITS = {"s": "seconds", "By": "bytes"}


class TorchprofCollector(Collector):
    """A collector for any registry: the application's own, or that of our endpoint.

    Args:
        collect: gives the metrics as they stand; nothing while there are none.
        resource: what `target_info` says of this process; None for no such series.
    """

    def __init__(
        self,
        collect: Callable[[], Sequence[MetricFamily]],
        resource: Callable[[], Resource] | None = None,
    ) -> None:
        self._collect = collect
        self._resource = resource

    def collect(self) -> Iterator[PrometheusMetric]:
        """Yield every metric that has a value."""
        families = [family for family in self._collect() if family.points]
        if families and self._resource is not None:
            yield _target_info(self._resource())
        yield from map(to_prometheus, families)

    def describe(self) -> Iterator[PrometheusMetric]:
        """Yield all metrics without values, by which a registry finds names that are taken."""
        yield from map(_empty, METRICS)


def to_prometheus(family: MetricFamily) -> PrometheusMetric:
    """`family` under the names that it has in Prometheus."""
    metric = _empty(family.metric)
    for point in family.points:
        labels = _labels(point.attributes)
        if isinstance(point, HistogramPoint):
            _add_histogram(metric, labels, point, family.metric.bounds)
        else:
            _add_number(metric, labels, point)
    return metric


def _empty(metric: Metric) -> PrometheusMetric:
    return PrometheusMetric(
        prometheus_family_name(metric), metric.meaning, metric.kind, _UNITS.get(metric.unit, "")
    )


def _add_number(metric: PrometheusMetric, labels: dict[str, str], point: NumberPoint) -> None:
    is_counter = metric.type == "counter"
    exemplar = _exemplar(point.exemplars[-1]) if is_counter and point.exemplars else None
    metric.add_sample(metric.name + "_total" * is_counter, labels, float(point.value), exemplar=exemplar)


def _add_histogram(
    metric: PrometheusMetric, labels: dict[str, str], point: HistogramPoint, bounds: Sequence[float]
) -> None:
    total = 0
    lower = -math.inf
    for bound, count in zip((*bounds, math.inf), point.bucket_counts, strict=True):
        total += count
        within = [exemplar for exemplar in point.exemplars if lower < exemplar.value <= bound]
        newest = max(within, key=lambda exemplar: exemplar.unix_ns, default=None)
        metric.add_sample(
            f"{metric.name}_bucket",
            {**labels, "le": "+Inf" if math.isinf(bound) else repr(bound)},
            float(total),
            exemplar=None if newest is None else _exemplar(newest),
        )
        lower = bound
    metric.add_sample(f"{metric.name}_count", labels, float(point.count))
    metric.add_sample(f"{metric.name}_sum", labels, point.sum)


def _exemplar(exemplar: Exemplar) -> PrometheusExemplar:
    ids = {"trace_id": exemplar.trace_id.hex(), "span_id": exemplar.span_id.hex()}
    return PrometheusExemplar(ids, exemplar.value, exemplar.unix_ns / 1e9)


def _target_info(resource: Resource) -> PrometheusMetric:
    info = PrometheusMetric("target", "What is known of this process.", "info")
    info.add_sample("target_info", _labels(resource.attributes), 1.0)
    return info


def _labels(attributes: Mapping[str, object]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for name, value in attributes.items():
        # Bytes of the environment that are no UTF-8 are lone surrogates in Python, which no encoder takes.
        labels[prometheus_label(name)] = str(value).encode(errors="replace").decode()
    return labels
