"""Distributions: counts by explicit bounds, on request also by base-2 exponential buckets, and exemplars."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from otel_torchprof.metrics.exponential_buckets import ExponentialCounts
from otel_torchprof.metrics.families import Attributes, Exemplar, HistogramPoint


class Histogram:
    """Counts values; any thread may add and read at any time.

    Values are lengths or sizes: one below zero counts as zero, and one that is no finite number does not
    count.
    """

    def __init__(self, bounds: Sequence[float], *, exponential: bool = False) -> None:
        """Begins empty.

        Args:
            bounds: upper bounds of the explicit buckets, ascending; a bucket holds its own bound.
            exponential: keep base-2 exponential buckets as well.
        """
        self._bounds = tuple(bounds)
        self._lock = threading.Lock()
        self._counts = np.zeros(len(self._bounds) + 1, dtype=np.int64)
        self._exemplars: list[Exemplar | None] = [None] * len(self._counts)
        self._sum = 0.0
        self._min = float("inf")
        self._max = float("-inf")
        self._exponential = ExponentialCounts() if exponential else None

    def add(self, value: float, exemplar: Exemplar | None = None) -> None:
        """Counts one value; of the exemplars of a bucket the latest is kept."""
        self._add(np.array([value], dtype=np.float64), exemplar)

    def add_many(self, values: npt.NDArray[np.float64]) -> None:
        """Counts each of the values."""
        self._add(values, None)

    def _add(self, values: npt.NDArray[np.float64], exemplar: Exemplar | None) -> None:
        counted = np.maximum(values[np.isfinite(values)], 0.0)
        if not len(counted):
            return
        buckets = np.searchsorted(self._bounds, counted, side="left")
        with self._lock:
            self._counts += np.bincount(buckets, minlength=len(self._counts))
            self._sum += float(counted.sum())
            self._min = min(self._min, float(counted.min()))
            self._max = max(self._max, float(counted.max()))
            if self._exponential is not None:
                self._exponential.add(counted)
            if exemplar is not None:
                self._exemplars[int(buckets[-1])] = exemplar

    def merge(self, other: Histogram) -> None:
        """Counts what another one counted, too; the later of two exemplars of a bucket is kept.

        Raises:
            ValueError: its bounds are others, or only one of them has exponential buckets.
        """
        if other._bounds != self._bounds:
            raise ValueError("histograms with other bounds do not add up")
        if (other._exponential is None) != (self._exponential is None):
            raise ValueError("only one of the histograms has exponential buckets")
        # One lock at a time, so that two that are merged into each other do not wait for each other.
        taken = other._snapshot()
        with self._lock:
            self._counts += taken._counts
            self._sum += taken._sum
            self._min = min(self._min, taken._min)
            self._max = max(self._max, taken._max)
            if self._exponential is not None and taken._exponential is not None:
                self._exponential.merge(taken._exponential)
            pairs = zip(self._exemplars, taken._exemplars, strict=True)
            self._exemplars = [_later(own, theirs) for own, theirs in pairs]

    def _snapshot(self) -> Histogram:
        copy = Histogram(self._bounds)
        with self._lock:
            copy._counts = self._counts.copy()
            copy._sum, copy._min, copy._max = self._sum, self._min, self._max
            copy._exemplars = list(self._exemplars)
            copy._exponential = None if self._exponential is None else self._exponential.copy()
        return copy

    def point(self, attributes: Attributes, start_unix_ns: int) -> HistogramPoint:
        """What was counted since `start_unix_ns`."""
        taken = self._snapshot()
        count = int(taken._counts.sum())
        return HistogramPoint(
            attributes=attributes,
            bucket_counts=taken._counts.tolist(),
            sum=taken._sum,
            count=count,
            min=taken._min if count else None,
            max=taken._max if count else None,
            start_unix_ns=start_unix_ns,
            exponential=None if taken._exponential is None else taken._exponential.buckets(),
            exemplars=tuple(exemplar for exemplar in taken._exemplars if exemplar is not None),
        )


def _later(one: Exemplar | None, other: Exemplar | None) -> Exemplar | None:
    if one is None or other is None:
        return one or other
    return other if other.unix_ns >= one.unix_ns else one
