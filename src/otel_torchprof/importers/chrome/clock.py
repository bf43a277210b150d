"""The times of a trace as unix ns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from otel_torchprof.importers.chrome.times import MAX_TIME_NS, NO_TIME, times_column
from otel_torchprof.importers.report import ImportReport

# Times this far from 0 are counted from something real: a 0 among them is no time.
_ABSOLUTE_NS = 1_000_000_000_000


class TraceClock:
    """Converts the times of events and counts those that are none.

    Args:
        base_ns: what the times of the trace count from.
    """

    def __init__(self, base_ns: int, report: ImportReport) -> None:
        self._base_ns = base_ns
        self._report = report
        self._is_absolute = False
        self.has_fractions = False
        """Whether some time was finer than a microsecond."""

    def column(self, values: list[Any]) -> npt.NDArray[np.int64]:
        """Unix ns; NO_TIME, and a problem, for what is no time."""
        times = times_column(values)
        unknown = int(np.count_nonzero(times == NO_TIME))
        if unknown:
            missing = sum(value is None for value in values)
            self._report.add_problem("no_time", missing)
            self._report.add_problem("bad_time", unknown - missing)
        return self.from_base(times)

    def from_base(self, base_times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """As `column`, of ns that count from the base of the trace; NO_TIME stays what it is."""
        times: npt.NDArray[np.int64] = base_times.astype(np.int64)
        known = times != NO_TIME
        self._is_absolute = self._is_absolute or bool((np.abs(times[known]) > _ABSOLUTE_NS).any())
        if self._is_absolute and (zero := times == 0).any():
            self._report.add_problem("zero_time", int(np.count_nonzero(zero)))
            times[zero] = NO_TIME
            known &= ~zero
        self.has_fractions = self.has_fractions or bool((times[known] % 1000 != 0).any())
        times[known] += self._base_ns
        too_far = known & (times > MAX_TIME_NS)
        if too_far.any():
            self._report.add_problem("time_out_of_range", int(np.count_nonzero(too_far)))
            times[too_far] = NO_TIME
        return times
