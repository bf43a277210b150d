"""Calls and time of each step by group, and what is usual: the median over the steps that count."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from otel_torchprof.analysis.steps import NO_STEP, Mask, Numbers


@dataclass(frozen=True, eq=False)
class StepSums:
    """A row for each step and group that has any events, by step, then by group."""

    groups: int
    step: Numbers
    group: Numbers
    calls: Numbers
    time_ns: Numbers  # never negative

    @classmethod
    def of(
        cls, step: Numbers, group: Numbers, time_ns: Numbers, groups: int, is_call: Mask | None = None
    ) -> StepSums:
        """Sums up events, or parts of them.

        Args:
            step: of each event, `NO_STEP` = it does not count.
            group: of each event, below `groups`.
            is_call: which count as calls; None = all do.
        """
        inside = step != NO_STEP
        width = max(groups, 1)
        cells, place = np.unique(step[inside] * width + group[inside], return_inverse=True)
        place = place.reshape(-1)
        called = place if is_call is None else place[is_call[inside]]
        calls = np.bincount(called, minlength=len(cells)).astype(np.int64)
        sums_ns = np.zeros(len(cells), dtype=np.int64)
        np.add.at(sums_ns, place, time_ns[inside])
        return cls(groups, cells // width, cells % width, calls, sums_ns)

    def in_step(self, step: int) -> tuple[Numbers, Numbers]:
        """By group the calls and the time of a step."""
        rows = slice(*np.searchsorted(self.step, [step, step + 1]).tolist())
        calls, time_ns = np.zeros((2, self.groups), dtype=np.int64)
        calls[self.group[rows]], time_ns[self.group[rows]] = self.calls[rows], self.time_ns[rows]
        return calls, time_ns

    def medians(self, counts: Mask) -> tuple[Numbers, Numbers]:
        """By group the median calls and time; a step without any of a group counts as 0.

        Args:
            counts: by step, whether it counts.
        """
        rows = np.flatnonzero(counts[self.step])
        steps = int(counts.sum())
        return self._medians(rows, self.calls, steps), self._medians(rows, self.time_ns, steps)

    def _medians(self, rows: Numbers, column: Numbers, steps: int) -> Numbers:
        order = rows[np.lexsort((column[rows], self.group[rows]))]
        first = np.searchsorted(self.group[order], np.arange(self.groups + 1))
        absent = steps - np.diff(first)  # in so many steps it is 0

        def ranked(rank: int) -> Numbers:
            values = np.zeros(self.groups, dtype=np.int64)
            present = np.flatnonzero(rank >= absent)
            values[present] = column[order[(first[:-1] + rank - absent)[present]]]
            return values

        if not steps:
            return np.zeros(self.groups, dtype=np.int64)
        # The mean of the two in the middle; of an odd number they are the same.
        middle: Numbers = (ranked((steps - 1) // 2) + ranked(steps // 2)) // 2
        return middle
