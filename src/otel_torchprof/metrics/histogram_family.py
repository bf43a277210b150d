"""Histograms of many values at once, by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from otel_torchprof.metrics.families import Attributes, MetricFamily
from otel_torchprof.metrics.histogram import Histogram
from otel_torchprof.semconv_metrics import METRIC_BY_NAME

Numbers: TypeAlias = npt.NDArray[np.int64]


def histogram_family(
    name: str, durations_ns: Numbers, group: Numbers, attributes: Sequence[Attributes], start_unix_ns: int
) -> MetricFamily:
    """The metric `name` with one point for each group that has values.

    Args:
        group: for each duration an index into `attributes`.
        start_unix_ns: when counting began.
    """
    metric = METRIC_BY_NAME[name]
    order = np.argsort(group, kind="stable")
    groups, first = np.unique(group[order], return_index=True)
    values_s = durations_ns[order] / 1e9
    points = []
    for index, values in zip(groups.tolist(), np.split(values_s, first[1:]), strict=False):
        histogram = Histogram(metric.bounds, exponential=True)
        histogram.add_many(values)
        points.append(histogram.point(attributes[index], start_unix_ns))
    return MetricFamily(metric, points)
