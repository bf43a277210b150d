"""Events of a recording by name: the sums of the top names, and the distributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from otel_torchprof.metrics.families import MetricFamily, NumberPoint
from otel_torchprof.metrics.grouped_sums import grouped_sums
from otel_torchprof.metrics.histogram_family import histogram_family
from otel_torchprof.metrics.top_names import TopNames
from otel_torchprof.semconv_metrics import METRIC_BY_NAME, OTHER, TOP_NAMES

Numbers: TypeAlias = npt.NDArray[np.int64]

CALLS = 0  # the sum that is always there; the others follow in their order


class NamedEvents:
    """Sums and distributions of events, one series a name and group.

    A recording is complete, so that all places go to the names that are the busiest in it.
    """

    def __init__(
        self,
        name_attribute: str,
        names: Sequence[str],
        name: Numbers,
        groups: Sequence[Mapping[str, str | int]],
        group: Numbers,
        values: Sequence[Numbers],
        *,
        weight: int,
        start_unix_ns: int,
    ) -> None:
        """Sums up the events.

        Args:
            names: what the indexes in `name`, one an event, stand for.
            groups: the other attributes; indexes in `group` stand for them.
            values: columns to sum up.
            weight: which sum says how busy a name is; 0 = `CALLS`, 1 = the first of `values`.
        """
        self._name_attribute = name_attribute
        self._groups = groups
        self._start_unix_ns = start_unix_ns
        sums = grouped_sums([name, group], values)
        totals = {(names[one], of): sum_of for (one, of), sum_of in sums.items()}
        top = TopNames[int](weight, start_unix_ns, first_places=TOP_NAMES)
        self._series = top.collect(totals, start_unix_ns)
        self._series_of_event = self._find_series(names, name, group)

    def _find_series(self, names: Sequence[str], name: Numbers, group: Numbers) -> Numbers:
        place = {(one.name, one.group): index for index, one in enumerate(self._series)}
        series = np.zeros((len(names), len(self._groups)), dtype=np.int64)
        for index, text in enumerate(names):
            for of in range(len(self._groups)):
                # Without either, no event is of that name and group.
                series[index, of] = place.get((text, of), place.get((OTHER, of), 0))
        return series[name, group]

    def counter(self, metric: str, value: int, *, per_unit: int = 1) -> MetricFamily:
        """A counter of the sums numbered `value`; `per_unit` of what was summed up make one of its unit."""
        points = [
            NumberPoint(
                self._attributes(one.name, one.group),
                one.values[value] / per_unit if per_unit > 1 else one.values[value],
                one.start_unix_ns,
            )
            for one in self._series
        ]
        return MetricFamily(METRIC_BY_NAME[metric], points)

    def histogram(self, metric: str, durations_ns: Numbers) -> MetricFamily:
        """A histogram of one duration an event."""
        attributes = [self._attributes(one.name, one.group) for one in self._series]
        return histogram_family(metric, durations_ns, self._series_of_event, attributes, self._start_unix_ns)

    def _attributes(self, name: str, group: int) -> Mapping[str, str | int]:
        return {self._name_attribute: name, **self._groups[group]}
