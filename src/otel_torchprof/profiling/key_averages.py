"""Averages of a recording by name: counted natively, whatever the number of events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from otel_torchprof.profiling.event_names import event_name
from otel_torchprof.profiling.event_rows import PYTHON_KINDS, STEP_NAME, EventRows, Numbers
from otel_torchprof.profiling.function_event_avg import FunctionEventAvg
from otel_torchprof.profiling.recorded_event import RecordedEvents

_NS_PER_US = 1000


@dataclass(slots=True)
class _Group:
    """Sums over some events; times in ns."""

    name: str
    first: int  # number of an event
    calls: int
    total_ns: int = 0
    self_ns: int = 0
    is_merged: bool = False


def key_averages(events: RecordedEvents, *, by_shapes: bool, by_overload: bool) -> list[FunctionEventAvg]:
    """Averages by name and kind of event, in order of their first event.

    A call inside a call of the same group adds nothing to the total.

    Args:
        by_shapes: keep calls with inputs of different shapes apart.
        by_overload: keep overloads apart.
    """
    averages = _RowAverages(events, by_shapes=by_shapes, by_overload=by_overload)
    made = [(group.first, averages.average(group)) for group in averages.groups()]
    made += [(group.first, averages.average(group)) for group in _more_groups(events.rows)]
    made.sort(key=lambda pair: (int(events.rows.start_ns[pair[0]]), pair[0]))
    return [average for _first, average in made]


def _more_groups(rows: EventRows) -> list[_Group]:
    """Steps, and memory outside events."""
    groups: list[_Group] = []
    if rows.steps:
        steps = slice(rows.first_step, rows.first_memory)
        total_ns = int((rows.end_ns[steps] - rows.start_ns[steps]).sum())
        self_ns = int(rows.self_ns[steps].sum())
        groups.append(_Group(STEP_NAME, rows.first_step, len(rows.steps), total_ns, self_ns))
    for failed in (False, True):
        numbers = rows.first_memory + np.flatnonzero(rows.out_of_memory == failed)
        if len(numbers):
            groups.append(_Group(rows.memory_name(int(numbers[0])), int(numbers[0]), len(numbers)))
    return groups


class _RowAverages:
    """The averages of a recording's own rows."""

    def __init__(self, events: RecordedEvents, *, by_shapes: bool, by_overload: bool) -> None:
        self._events = events
        self._by_shapes = by_shapes
        self._by_overload = by_overload
        self._rows = events.rows
        self._recording = events.rows.recording
        self._group_of_row = np.full(len(self._recording), -1, dtype=np.int64)
        self._group_count = 0
        self._members: dict[int, int] = {}  # group number by its first event
        self._known_sums: dict[str, tuple[Numbers, Numbers]] = {}

    def groups(self) -> list[_Group]:
        """Groups by name, then those that a name alone does not tell apart: calls of Python."""
        is_python = np.isin(self._recording.events.kind, PYTHON_KINDS)
        visible = self._rows.row_visible
        found: list[_Group] = []
        for by_overload, wanted in ((self._by_overload, visible & ~is_python), (True, visible & is_python)):
            if wanted.any():
                found += self._native_groups(by_overload, wanted)
        return self._merge_alike(found) if self._by_shapes else found

    def _merge_alike(self, groups: list[_Group]) -> list[_Group]:
        """Makes one of the groups whose shapes are written alike: a number and a tensor of no dimension."""
        merged: dict[tuple[str, int, str], _Group] = {}
        number_of = np.arange(self._group_count)
        for group in groups:
            shapes = str(self._events.event(group.first).input_shapes)
            key = (group.name, int(self._recording.events.kind[group.first]), shapes)
            kept = merged.setdefault(key, group)
            if kept is not group:
                number_of[self._members[group.first]] = self._members[kept.first]
                kept.calls += group.calls
                kept.self_ns += group.self_ns
                kept.is_merged = True
        is_in_group = self._group_of_row >= 0
        self._group_of_row[is_in_group] = number_of[self._group_of_row[is_in_group]]
        for group in merged.values():
            if group.is_merged:  # one of them may lie in the other
                group.total_ns = self._sum_of(group)(self._sums("time"))
        return list(merged.values())

    def _native_groups(self, by_overload: bool, wanted: Any) -> list[_Group]:
        recording = self._recording
        name, kind, first_row, calls, total_ns, self_ns, *_memory, _damaged = recording.native.averages(
            recording.tree().native, by_overload, self._by_shapes, None
        )
        self._place_rows(by_overload, wanted)
        more_self_ns = self._corrections(wanted)
        groups: list[_Group] = []
        for place, row in enumerate(first_row.tolist()):
            if not wanted[row]:
                continue
            number = int(self._group_of_row[row])
            self._members[row] = number
            groups.append(
                _Group(
                    event_name(recording, int(name[place]), int(kind[place])),
                    row,
                    int(calls[place]),
                    int(total_ns[place]),
                    int(self_ns[place]) + more_self_ns.get(number, 0),
                )
            )
        return groups

    def _place_rows(self, by_overload: bool, wanted: Any) -> None:
        """Numbers the groups of rows, as the native averages make them."""
        recording = self._recording
        texts: dict[Any, int] = {}
        by_name = np.array(
            [
                texts.setdefault(
                    (recording.name(name), recording.overload_name(name) if by_overload else ""), len(texts)
                )
                for name in range(recording.name_count)
            ],
            dtype=np.int64,
        )
        rows = np.flatnonzero(wanted)
        keys = by_name[recording.events.name[rows]] * 16 + recording.events.kind[rows]
        if self._by_shapes:
            shapes = recording.input_shape_ids()[rows].astype(np.int64)
            keys = keys * (int(shapes.max(initial=0)) + 1) + shapes
        distinct, place = np.unique(keys, return_inverse=True)
        begin = int(self._group_of_row.max(initial=-1)) + 1
        self._group_of_row[rows] = begin + place.reshape(-1)
        self._group_count = begin + len(distinct)

    def _corrections(self, wanted: Any) -> dict[int, int]:
        """By group, the self time that its events have in `EventRows` beyond the recording's."""
        rows = np.flatnonzero(wanted)
        more_ns = self._rows.self_ns[rows] - self._recording.tree().self_ns[rows]
        changed = np.flatnonzero(more_ns)
        sums: dict[int, int] = {}
        for group, ns in zip(
            self._group_of_row[rows[changed]].tolist(), more_ns[changed].tolist(), strict=True
        ):
            sums[group] = sums.get(group, 0) + ns
        return sums

    def average(self, group: _Group) -> FunctionEventAvg:
        """A group in torch's shape."""
        first = self._events.event(group.first)
        average = FunctionEventAvg()
        average.key = group.name
        average.count = group.calls
        average.node_id = -1
        average.use_device = first.use_device
        average.device_type = first.device_type
        average.scope = first.scope
        average.is_async = first.is_async
        average.is_user_annotation = first.is_user_annotation
        average.cpu_parent = first.cpu_parent
        average.stack = []
        average.overload_name = first.overload_name if self._by_overload else ""
        average.input_shapes = first.input_shapes if self._by_shapes else ""
        if not self._rows.is_on_device(group.first):
            average.cpu_time_total = group.total_ns / _NS_PER_US
            average.self_cpu_time_total = group.self_ns / _NS_PER_US
        self._add_sums(average, group)
        return average

    def _add_sums(self, average: FunctionEventAvg, group: _Group) -> None:
        of_group = self._sum_of(group)
        if self._rows.options.use_device:
            average.self_device_time_total = of_group(self._sums("self_device")) / _NS_PER_US
            average.device_time_total = of_group(self._sums("device")) / _NS_PER_US
        if len(self._recording.memory):
            average.cpu_memory_usage = of_group(self._sums("memory"))
            average.self_cpu_memory_usage = of_group(self._sums("self_memory"))
            average.device_memory_usage = of_group(self._sums("device_memory"))
            average.self_device_memory_usage = of_group(self._sums("self_device_memory"))
        if self._events.flops:
            average.flops = of_group(self._sums("flops"))

    def _sum_of(self, group: _Group) -> Callable[[tuple[Numbers, Numbers]], int]:
        """Adds up a column over the group: of rows by group, and of what is no row directly."""
        if group.first < self._rows.first_step:
            number = self._members[group.first]
            return lambda sums: int(sums[1][number])
        if group.first < self._rows.first_memory:
            steps = slice(self._rows.first_step, self._rows.first_memory)
            return lambda sums: int(sums[0][steps].sum())
        same = self._rows.out_of_memory == self._rows.out_of_memory[group.first - self._rows.first_memory]
        numbers = self._rows.first_memory + np.flatnonzero(same)
        return lambda sums: int(sums[0][numbers].sum())

    def _sums(self, what: str) -> tuple[Numbers, Numbers]:
        """A column by number of event, and its sums by group."""
        if what not in self._known_sums:
            column = self._column(what)
            sums = np.zeros(self._group_count, dtype=np.int64)
            counted = self._group_of_row >= 0
            if what in {"time", "device", "memory", "device_memory"}:
                counted &= ~self._is_inside_same_group
            rows = np.flatnonzero(counted)
            np.add.at(sums, self._group_of_row[rows], column[rows])
            self._known_sums[what] = (column, sums)
        return self._known_sums[what]

    def _column(self, what: str) -> Numbers:
        rows = self._rows
        if what == "flops":
            column = np.zeros(len(rows), dtype=np.int64)
            flops = self._events.flops
            column[list(flops)] = list(flops.values())
            return column
        if what == "time":
            return rows.end_ns - rows.start_ns
        if what == "self_device":
            return rows.self_device_ns
        if what == "device":
            return rows.total_device_ns
        names = ("memory", "self_memory", "device_memory", "self_device_memory")
        return rows.memory[names.index(what)]

    @cached_property
    def _is_inside_same_group(self) -> npt.NDArray[np.bool_]:
        """By row, whether a row of its own group encloses it; once all groups are known."""
        parent = self._recording.tree().parent
        nested = np.zeros(len(parent), dtype=bool)
        pending = np.flatnonzero((parent >= 0) & (self._group_of_row >= 0))
        above = parent[pending]
        while len(pending):
            same = self._group_of_row[above] == self._group_of_row[pending]
            nested[pending[same]] = True
            further = parent[above]
            goes_on = ~same & (further >= 0)
            pending, above = pending[goes_on], further[goes_on]
        return nested
