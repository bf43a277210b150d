"""What counters and histograms grew by since the last export that arrived, for exporters that prefer deltas.

The families are cumulative, so a failed export loses nothing and repeats nothing: the next difference is
taken from the same base.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from otel_torchprof.metrics.families import (
    ExponentialBuckets,
    HistogramPoint,
    MetricFamily,
    NumberPoint,
    Point,
)

_SeriesKey = tuple[str, frozenset[tuple[str, "str | int"]]]
_Base = tuple[Point, int]  # a delivered point and when it was collected


class Differences:
    """Makes differences for one exporter.

    Args:
        of_counters: whether the exporter wants those of counters.
        of_histograms: whether it wants those of histograms.
    """

    def __init__(self, *, of_counters: bool, of_histograms: bool) -> None:
        self._kinds = {
            kind for kind, wanted in (("counter", of_counters), ("histogram", of_histograms)) if wanted
        }
        self._delivered: dict[_SeriesKey, _Base] = {}
        self._tried: dict[_SeriesKey, _Base] = {}

    def since_delivered(self, families: Sequence[MetricFamily], collected_ns: int) -> list[MetricFamily]:
        """`families` with differences where they are wanted; series that did not grow are left out.

        Args:
            collected_ns: unix time at which `families` were collected.
        """
        self._tried = {}
        return [
            self._difference(family, collected_ns) if family.metric.kind in self._kinds else family
            for family in families
        ]

    def delivered(self) -> None:
        """What `since_delivered` returned last has arrived."""
        # Series that were not in it stay: one that comes back must not be sent again from its start.
        self._delivered.update(self._tried)
        self._tried = {}

    def _difference(self, family: MetricFamily, collected_ns: int) -> MetricFamily:
        points: list[Point] = []
        for point in family.points:
            key = (family.metric.name, frozenset(point.attributes.items()))
            self._tried[key] = (point, collected_ns)
            base = self._delivered.get(key)
            if base is not None and base[0].start_unix_ns == point.start_unix_ns:
                difference = _subtract(point, *base)
            else:
                difference = point  # new, or started over
            if not _is_empty(difference):
                points.append(difference)
        return replace(family, points=points)


def _is_empty(point: Point) -> bool:
    # An exemplar may come later than what it is one of: its span has to arrive first.
    return not (point.value if isinstance(point, NumberPoint) else point.count) and not point.exemplars


def _subtract(point: Point, base: Point, base_ns: int) -> Point:
    """What came after `base`. Nothing shrinks: a lower count is taken for no growth."""
    exemplars = [exemplar for exemplar in point.exemplars if exemplar not in base.exemplars]
    if isinstance(point, NumberPoint) and isinstance(base, NumberPoint):
        return replace(
            point, value=max(point.value - base.value, 0), start_unix_ns=base_ns, exemplars=exemplars
        )
    assert isinstance(point, HistogramPoint)
    assert isinstance(base, HistogramPoint)
    exponential = point.exponential
    if exponential is not None and base.exponential is not None:
        exponential = _subtract_buckets(exponential, base.exponential)
    return replace(
        point,
        bucket_counts=_subtract_counts(point.bucket_counts, base.bucket_counts),
        sum=max(point.sum - base.sum, 0.0),
        count=max(point.count - base.count, 0),
        # The extremes of the time since then are not known from those of all time.
        min=None,
        max=None,
        start_unix_ns=base_ns,
        exponential=exponential,
        exemplars=exemplars,
    )


def _subtract_counts(counts: Sequence[int], base: Sequence[int]) -> list[int]:
    return [max(count - before, 0) for count, before in zip(counts, base, strict=True)]


def _subtract_buckets(buckets: ExponentialBuckets, base: ExponentialBuckets) -> ExponentialBuckets:
    """The difference at the coarser of the two scales."""
    scale = min(buckets.scale, base.scale)
    now, before = _count_by_index(buckets, scale), _count_by_index(base, scale)
    grown = {index: count - before.get(index, 0) for index, count in now.items()}
    indices = [index for index, count in grown.items() if count > 0]
    first, last = (min(indices), max(indices)) if indices else (0, -1)
    return ExponentialBuckets(
        scale=scale,
        zero_count=max(buckets.zero_count - base.zero_count, 0),
        offset=first,
        counts=[max(grown.get(index, 0), 0) for index in range(first, last + 1)],
    )


def _count_by_index(buckets: ExponentialBuckets, scale: int) -> dict[int, int]:
    """Counts by bucket index at a `scale` that is not finer: two neighbours become one at each step down."""
    counts: dict[int, int] = {}
    for position, count in enumerate(buckets.counts):
        index = (buckets.offset + position) >> (buckets.scale - scale)
        counts[index] = counts.get(index, 0) + count
    return counts
