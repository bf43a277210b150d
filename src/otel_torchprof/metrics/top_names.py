"""Which names have series of their own, and what is left for `other`.

A counter must never go backwards, and its reader takes any fall for a restart. So a name that got a place
keeps it as long as the program runs, and what it had summed up in `other` before stays there: its own series
begins at zero when it gets the place. All values are whole numbers, as sums of floats depend on their order.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from otel_torchprof.semconv_metrics import OTHER, TOP_NAMES

Group = TypeVar("Group", bound=Hashable)
Values = tuple[int, ...]

_ADMISSION_INTERVAL_NS = 5_000_000_000


@dataclass(frozen=True, slots=True)
class NamedSeries(Generic[Group]):
    """Values of one name, or of `OTHER`, in one group: sums since `start_unix_ns`."""

    name: str
    group: Group
    values: Values
    start_unix_ns: int


@dataclass(frozen=True, slots=True)
class _Place(Generic[Group]):
    start_unix_ns: int
    left_in_other: Mapping[Group, Values]


class TopNames(Generic[Group]):
    """Gives places to names, for one set of metrics with the same names.

    At the first collection the busiest names get places at once. The rest is for those that come later, as
    what a program does when it starts says little of what it does all day: a name gets one of them when it
    is among the busiest, as many as there are places in all, at two collections in a row.
    """

    def __init__(
        self,
        weight: int,
        start_unix_ns: int,
        *,
        places: int = TOP_NAMES,
        first_places: int | None = None,
        admission_interval_ns: int = _ADMISSION_INTERVAL_NS,
    ) -> None:
        """Begins with all places free.

        Args:
            weight: index of the value that says how busy a name is.
            start_unix_ns: when the sums began.
            first_places: how many are given at the first collection; by default half of them.
            admission_interval_ns: collections closer than this to the last one that gave places give none.
        """
        self._weight = weight
        self._start_unix_ns = start_unix_ns
        self._count = places
        self._first = places // 2 if first_places is None else first_places
        self._admission_interval_ns = admission_interval_ns
        self._lock = threading.Lock()
        self._places: dict[str, _Place[Group]] = {}
        self._weights: dict[str, int] = {}
        self._admitted_unix_ns: int | None = None
        self._busy: frozenset[str] = frozenset()

    def collect(
        self, totals: Mapping[tuple[str, Group], Values], now_unix_ns: int
    ) -> list[NamedSeries[Group]]:
        """The series that stand for all totals: at most as many names as there are places, and `OTHER`.

        Args:
            totals: sums by name and group, none smaller and none missing that an earlier collection had:
                whoever collects from several threads takes them and calls this under one lock.
        """
        with self._lock:
            self._admit(totals, now_unix_ns)
            return self._split(totals)

    def _split(self, totals: Mapping[tuple[str, Group], Values]) -> list[NamedSeries[Group]]:
        series: list[NamedSeries[Group]] = []
        rest: dict[Group, list[Values]] = {}
        for (name, group), values in totals.items():
            place = self._places.get(name)
            if place is None:
                rest.setdefault(group, []).append(values)
                continue
            left = place.left_in_other.get(group)
            own = values if left is None else tuple(map(int.__sub__, values, left))
            series.append(NamedSeries(name, group, own, place.start_unix_ns))
            if left is not None:
                rest.setdefault(group, []).append(left)
        for group, parts in rest.items():
            together = tuple(map(sum, zip(*parts, strict=True)))
            series.append(NamedSeries(OTHER, group, together, self._start_unix_ns))
        return series

    def _admit(self, totals: Mapping[tuple[str, Group], Values], now_unix_ns: int) -> None:
        free = self._count - len(self._places)
        is_first = self._admitted_unix_ns is None
        since_ns = now_unix_ns - (self._admitted_unix_ns or 0)
        is_due = is_first or since_ns >= self._admission_interval_ns
        if not totals or not free or not is_due:
            return
        self._admitted_unix_ns = now_unix_ns
        weights: dict[str, int] = {}
        for (name, _group), values in totals.items():
            weights[name] = weights.get(name, 0) + values[self._weight]
        recent = {name: weight - self._weights.get(name, 0) for name, weight in weights.items()}
        self._weights = weights
        # By name where they are equally busy, so that the same totals always give the same series.
        busiest = sorted(recent, key=lambda name: (-recent[name], name))
        if is_first:
            admitted = [name for name in busiest if name != OTHER][: self._first]
            self._places = {name: _Place(self._start_unix_ns, {}) for name in admitted}
            return
        busy = [name for name in busiest[: self._count] if recent[name] > 0 and name != OTHER]
        newcomers = [name for name in busy if name in self._busy and name not in self._places][:free]
        self._busy = frozenset(busy)
        for name in newcomers:
            left = {group: values for (other, group), values in totals.items() if other == name}
            self._places[name] = _Place(now_unix_ns, left)
