"""Which block lay at an address at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


def dense_ids(*columns: npt.NDArray[np.generic]) -> Numbers:
    """A number from 0 for each distinct combination of values, in their order."""
    if not len(columns[0]):
        return np.empty(0, dtype=np.int64)
    order = np.lexsort(columns[::-1])
    is_new = np.zeros(len(order), dtype=bool)
    for column in columns:
        ordered = column[order]
        is_new[1:] |= ordered[1:] != ordered[:-1]
    ids = np.empty(len(order), dtype=np.int64)
    ids[order] = np.cumsum(is_new)
    return ids


class Places:
    """Blocks by place (device and address) and time.

    Args:
        place: of each block, a dense id.
        start_ns: when each begins; two at one place never overlap.
        end_ns: when each ends.
    """

    def __init__(self, place: Numbers, start_ns: Numbers, end_ns: Numbers) -> None:
        self._order = np.lexsort((start_ns, place))
        self._place = place[self._order]
        self._start_ns = start_ns[self._order]
        self._end_ns = end_ns[self._order]

    def find(self, place: Numbers, time_ns: Numbers) -> tuple[Numbers, Numbers]:
        """For each query the block there at that time, -1 = none; and the number of blocks before it."""
        times = np.unique(np.concatenate([self._start_ns, time_ns]))
        width = len(times) + 1
        keys = self._place * width + np.searchsorted(times, self._start_ns)
        before = np.searchsorted(keys, place * width + np.searchsorted(times, time_ns), side="right")
        if not len(keys):
            return np.full(len(place), -1, dtype=np.int64), before
        last = np.maximum(before - 1, 0)
        # A free and a use at the same nanosecond belong together.
        found = (before > 0) & (self._place[last] == place) & (self._end_ns[last] >= time_ns)
        return np.where(found, self._order[last], -1), before
