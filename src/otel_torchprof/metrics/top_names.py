"""Which names have series of their own, and what is left for `other`.

A counter must never go backwards, and its reader takes any fall for a restart. So a name that gets a place
leaves what it had summed up in `other` before where it is, and its own series begins at zero; a name that has
to give its place up takes nothing back to `other` of what its own series had, which just ends. All values are
whole numbers, as sums of floats depend on their order.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from otel_torchprof.semconv_metrics import OTHER, TOP_NAMES

Group = TypeVar("Group", bound=Hashable)
Values = tuple[int, ...]

_ADMISSION_INTERVAL_NS = 5_000_000_000
# A place changes hands for one that was this much busier. Sums only grow, so names cannot take turns often.
_TIMES_BUSIER = 2


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
    before: Mapping[Group, Values]  # sums when it was given


class TopNames(Generic[Group]):
    """Gives places to names, for one set of metrics with the same names.

    At the first collection the busiest names get places at once. The rest is for those that come later, as
    what a program does when it starts says little of what it does all day: a name gets one of them when it
    is among the busiest, as many as there are places in all, at two collections in a row. Once all are
    taken, a name that has been twice as busy as the least busy of those with a place, since the beginning,
    gets that one's.
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
        # What went out in series that have ended, by name.
        self._ended: dict[str, dict[Group, Values]] = {}
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
            if not totals or not self._is_due(now_unix_ns):
                return self._split(totals)
            is_first = self._admitted_unix_ns is None
            self._admitted_unix_ns = now_unix_ns
            weights = self._weigh(totals)
            if len(self._places) < self._count:
                self._give_free(totals, weights, now_unix_ns, is_first=is_first)
                return self._split(totals)
            series = self._split(totals)
            # From the next collection on: all that a series had until it ends has gone out.
            self._pass_on(totals, weights, now_unix_ns)
            return series

    def _is_due(self, now_unix_ns: int) -> bool:
        admitted = self._admitted_unix_ns
        return admitted is None or now_unix_ns - admitted >= self._admission_interval_ns

    def _weigh(self, totals: Mapping[tuple[str, Group], Values]) -> dict[str, int]:
        weights: dict[str, int] = {}
        for (name, _group), values in totals.items():
            if name != OTHER:
                weights[name] = weights.get(name, 0) + values[self._weight]
        return weights

    def _split(self, totals: Mapping[tuple[str, Group], Values]) -> list[NamedSeries[Group]]:
        series: list[NamedSeries[Group]] = []
        rest: dict[Group, list[Values]] = {}
        for (name, group), values in totals.items():
            place = self._places.get(name)
            unnamed: Values | None = values
            if place is not None:
                unnamed = place.before.get(group)
                own = values if unnamed is None else _difference(values, unnamed)
                series.append(NamedSeries(name, group, own, place.start_unix_ns))
            if unnamed is not None:
                ended = self._ended.get(name, {}).get(group)
                rest.setdefault(group, []).append(unnamed if ended is None else _difference(unnamed, ended))
        for group, parts in rest.items():
            together = tuple(map(sum, zip(*parts, strict=True)))
            series.append(NamedSeries(OTHER, group, together, self._start_unix_ns))
        return series

    def _give_free(
        self,
        totals: Mapping[tuple[str, Group], Values],
        weights: dict[str, int],
        now_unix_ns: int,
        *,
        is_first: bool,
    ) -> None:
        recent = {name: weight - self._weights.get(name, 0) for name, weight in weights.items()}
        self._weights = weights
        # By name where they are equally busy, so that the same totals always give the same series.
        busiest = sorted(recent, key=lambda name: (-recent[name], name))
        if is_first:
            self._places = {name: _Place(self._start_unix_ns, {}) for name in busiest[: self._first]}
            return
        busy = [name for name in busiest[: self._count] if recent[name] > 0]
        newcomers = [name for name in busy if name in self._busy and name not in self._places]
        self._busy = frozenset(busy)
        admitted = newcomers[: self._count - len(self._places)]
        for name, sums in _sums_of(admitted, totals).items():
            self._places[name] = _Place(now_unix_ns, sums)

    def _pass_on(
        self, totals: Mapping[tuple[str, Group], Values], weights: Mapping[str, int], now_unix_ns: int
    ) -> None:
        named = sorted(self._places, key=lambda name: (weights[name], name))
        waiting = sorted(weights.keys() - self._places, key=lambda name: (-weights[name], name))
        pairs = [
            (idle, busy)
            for idle, busy in zip(named, waiting, strict=False)
            if weights[busy] > _TIMES_BUSIER * weights[idle]
        ]
        sums = _sums_of([name for pair in pairs for name in pair], totals)
        for idle, busy in pairs:
            self._end(idle, sums[idle])
            self._places[busy] = _Place(now_unix_ns, sums[busy])

    def _end(self, name: str, sums: Mapping[Group, Values]) -> None:
        before = self._places.pop(name).before
        ended = self._ended.setdefault(name, {})
        for group, values in sums.items():
            own = _difference(values, before[group]) if group in before else values
            ended[group] = tuple(map(int.__add__, ended[group], own)) if group in ended else own


def _sums_of(
    names: Sequence[str], totals: Mapping[tuple[str, Group], Values]
) -> dict[str, dict[Group, Values]]:
    sums: dict[str, dict[Group, Values]] = {name: {} for name in names}
    for (name, group), values in totals.items():
        if name in sums:
            sums[name][group] = values
    return sums


def _difference(values: Values, base: Values) -> Values:
    return tuple(map(int.__sub__, values, base))
