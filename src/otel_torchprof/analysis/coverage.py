"""How much of the time something was going on: the union of intervals."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]


class Coverage:
    """The union of intervals, in ns."""

    def __init__(self, start_ns: Times, end_ns: Times) -> None:
        order = np.argsort(start_ns, kind="stable")
        starts, reach = start_ns[order], np.maximum.accumulate(end_ns[order])
        # A part begins where nothing before it reaches.
        begins = np.ones(len(starts), dtype=bool)
        begins[1:] = starts[1:] > reach[:-1]
        first = np.flatnonzero(begins)
        self.start_ns: Times = starts[first]
        self.end_ns: Times = reach[np.append(first[1:], len(starts)) - 1] if len(starts) else reach
        lengths = self.end_ns - self.start_ns
        self._covered_at_end_ns: Times = np.cumsum(lengths)

    @property
    def total_ns(self) -> int:
        """The length of the union."""
        return int(self._covered_at_end_ns[-1]) if len(self._covered_at_end_ns) else 0

    def until(self, times_ns: Times) -> Times:
        """How much of it lies before each of `times_ns`."""
        if not len(self.start_ns):
            return np.zeros(len(times_ns), dtype=np.int64)
        part = np.searchsorted(self.start_ns, times_ns, side="right") - 1
        known = np.maximum(part, 0)
        covered = self._covered_at_end_ns[known] - np.maximum(self.end_ns[known] - times_ns, 0)
        return np.where(part >= 0, covered, 0)

    def within(self, start_ns: Times, end_ns: Times) -> Times:
        """How much of it lies in each of some intervals."""
        return self.until(end_ns) - self.until(start_ns)
