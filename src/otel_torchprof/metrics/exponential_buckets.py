"""Counts by base-2 exponential buckets, as OpenTelemetry's data model has them."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from otel_torchprof.metrics.families import ExponentialBuckets

Numbers: TypeAlias = npt.NDArray[np.int64]
Values: TypeAlias = npt.NDArray[np.float64]

MAX_BUCKETS = 160
MAX_SCALE = 20


class ExponentialCounts:
    """As fine as 160 buckets allow: the scale falls as the values spread, and never rises."""

    def __init__(self) -> None:
        self._scale = MAX_SCALE
        self._zeros = 0
        self._offset = 0
        self._counts: Numbers = np.zeros(0, dtype=np.int64)

    def add(self, values: Values) -> None:
        """Counts finite values, none below zero."""
        positive = values[values > 0]
        self._zeros += len(values) - len(positive)
        if not len(positive):
            return
        index = bucket_index(positive, self._scale)
        first, last = int(index.min()), int(index.max())
        if len(self._counts):
            first, last = min(first, self._offset), max(last, self._last)
        shift = _shift_to_fit(first, last)
        self._coarsen(shift)
        index >>= shift
        self._cover(int(index.min()), int(index.max()))
        self._counts += np.bincount(index - self._offset, minlength=len(self._counts))

    def merge(self, other: ExponentialCounts) -> None:
        """Counts what another one counted, too."""
        self._zeros += other._zeros
        if not len(other._counts):
            return
        taken = other.copy()
        scale = min(self._scale, taken._scale)
        self._coarsen(self._scale - scale)
        taken._coarsen(taken._scale - scale)
        first, last = taken._offset, taken._last
        if len(self._counts):
            first, last = min(first, self._offset), max(last, self._last)
        shift = _shift_to_fit(first, last)
        self._coarsen(shift)
        taken._coarsen(shift)
        self._cover(taken._offset, taken._last)
        place = taken._offset - self._offset
        self._counts[place : place + len(taken._counts)] += taken._counts

    def copy(self) -> ExponentialCounts:
        """One that counts on its own."""
        copy = ExponentialCounts()
        copy._scale, copy._zeros, copy._offset = self._scale, self._zeros, self._offset
        copy._counts = self._counts.copy()
        return copy

    def buckets(self) -> ExponentialBuckets:
        """What was counted."""
        return ExponentialBuckets(self._scale, self._zeros, self._offset, self._counts.tolist())

    @property
    def _last(self) -> int:
        return self._offset + len(self._counts) - 1

    def _coarsen(self, shift: int) -> None:
        """Makes each 2**shift buckets one."""
        self._scale -= shift
        if not shift or not len(self._counts):
            return
        index = (self._offset + np.arange(len(self._counts), dtype=np.int64)) >> shift
        self._offset = int(index[0])
        counts = np.zeros(int(index[-1]) - self._offset + 1, dtype=np.int64)
        np.add.at(counts, index - self._offset, self._counts)
        self._counts = counts

    def _cover(self, first: int, last: int) -> None:
        """Widens the counts to buckets from `first` to `last`."""
        if not len(self._counts):
            self._offset = first
        before = max(self._offset - first, 0)
        after = max(last - self._last, 0)
        self._counts = np.pad(self._counts, (before, after))
        self._offset -= before


def _shift_to_fit(first: int, last: int) -> int:
    shift = 0
    while (last >> shift) - (first >> shift) >= MAX_BUCKETS:
        shift += 1
    return shift


def bucket_index(values: Values, scale: int) -> Numbers:
    """The bucket of each positive value: bucket i holds (b**i, b**(i + 1)] with b = 2**2**-scale."""
    fraction, exponent = np.frexp(values)
    is_power_of_two = fraction == 0.5
    # The bucket at scale 0, as an upper bound belongs to the bucket below it.
    octave: Numbers = exponent.astype(np.int64) - 1 - is_power_of_two
    if scale <= 0:
        coarser: Numbers = octave >> -scale
        return coarser
    # In (1, 2] times the octave's lower bound, which keeps the logarithm's error away from large exponents.
    within = np.where(is_power_of_two, 2.0, fraction * 2)
    steps = np.ceil(np.log2(within) * (1 << scale)).astype(np.int64) - 1
    index: Numbers = (octave << scale) + np.clip(steps, 0, (1 << scale) - 1)
    return index
