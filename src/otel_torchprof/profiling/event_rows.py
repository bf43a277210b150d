"""Which rows of a recording are events in torch's sense, in what order, and who encloses whom."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.launches import launched_ns, launches
from otel_torchprof.analysis.merged_stacks import nearest
from otel_torchprof.recording import EventFlags, EventKind, MemoryFlags, Recording, TrackKind

Numbers = npt.NDArray[np.int64]

STEP_NAME = "ProfilerStep*"
MEMORY_NAME = "[memory]"
OUT_OF_MEMORY_NAME = "[OutOfMemory]"

# What torch's profiler leaves out too: how it marks scopes, and what autograd asks of every tensor.
_HIDDEN_NAMES = frozenset(
    {
        "profiler::_record_function_enter",
        "profiler::_record_function_enter_new",
        "profiler::_record_function_exit",
        "aten::is_leaf",
        "aten::output_nr",
        "aten::_version",
    }
)
_DEVICE_KINDS = (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET, EventKind.ANNOTATION)
PYTHON_KINDS = (EventKind.PYTHON, EventKind.PYTHON_C, EventKind.MODULE)
_HIDDEN_KINDS = (EventKind.SPAN,)
_HOST_DEVICE_TYPES = (0, 2, 5)  # c10::DeviceType: CPU, MKLDNN, IDEEP


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """How a recording is looked at.

    Attributes:
        with_cpu: what ran on threads is part of it; else only devices and the calls to them.
        with_steps: steps are events too, `ProfilerStep#<number>`.
        use_device: the kind of device, as "cuda"; None = none.
        profile_memory, with_flops: tables show them.
        left_out: kinds of events that are no part of it.
        left_out_of_traces: kinds that Chrome traces do not show either.
    """

    with_cpu: bool = True
    with_steps: bool = False
    use_device: str | None = None
    profile_memory: bool = False
    with_flops: bool = False
    left_out: frozenset[EventKind] = frozenset()
    left_out_of_traces: frozenset[EventKind] = frozenset()


class EventRows:
    """The events of a recording by number: first its rows, then its steps, then memory outside events.

    Columns have an entry for every number; `visible` tells which of them are events.
    """

    def __init__(self, recording: Recording, options: ViewOptions) -> None:
        self.recording = recording
        self.options = options
        self.steps = recording.steps if options.with_steps and options.with_cpu else ()
        self.first_step = len(recording)
        self.first_memory = self.first_step + len(self.steps)
        events = recording.events
        self.row_visible = self._visible_rows()
        tree = recording.tree()
        row_parent = _parents(tree.parent, self.row_visible)
        self.lone_memory = self._find_lone_memory(row_parent)
        times = self.lone_memory["time_ns"]
        steps = self.steps
        self.start_ns = _join(events.start_ns, [step.start_ns for step in steps], times)
        self.end_ns = _join(events.end_ns, [step.end_ns for step in steps], times)
        self.track = _join(events.track, [step.track for step in steps], self.lone_memory["track"])
        more = len(self.steps) + len(times)
        self.visible = np.append(self.row_visible, np.ones(more, dtype=bool))
        self.parent = np.append(row_parent, np.full(more, -1, dtype=np.int64))
        self.self_ns = np.append(self._self_of_rows(row_parent), np.zeros(more, dtype=np.int64))
        self._enclose_in_steps()

    def __len__(self) -> int:
        """How many numbers there are, visible or not."""
        return len(self.start_ns)

    @cached_property
    def in_order(self) -> Numbers:
        """Numbers of the events by start, enclosing ones first."""
        order = np.lexsort((-self.end_ns, self.start_ns))
        numbers: Numbers = order[self.visible[order]].astype(np.int64)
        return numbers

    def children(self, number: int) -> list[int]:
        """Numbers of the events directly in one, by start."""
        by_parent, bounds = self._children
        return [int(child) for child in by_parent[bounds[number] : bounds[number + 1]]]

    @cached_property
    def is_device_track(self) -> npt.NDArray[np.bool_]:
        """By track, whether it is of a device."""
        return np.array([track.kind == TrackKind.STREAM for track in self.recording.tracks], dtype=bool)

    @cached_property
    def memory(self) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """By number, bytes allocated minus freed: on the host with children and without, so on devices."""
        columns: list[Numbers] = []
        for on_devices in (False, True):
            usage = self.recording.memory_by_event(on_devices=on_devices)
            total = usage.allocated_bytes - usage.freed_bytes
            alone = usage.self_allocated_bytes - usage.self_freed_bytes
            columns += [self._with_steps(total), self._with_hidden(alone)]
        is_on_host = np.isin(self.lone_memory["device_type"], _HOST_DEVICE_TYPES)
        sizes = np.where(self.out_of_memory, 0, self.lone_memory["size_bytes"])
        for column, counts in zip(columns, (is_on_host, is_on_host, ~is_on_host, ~is_on_host), strict=True):
            column[self.first_memory :] = np.where(counts, sizes, 0)
        return columns[0], columns[1], columns[2], columns[3]

    @cached_property
    def self_device_ns(self) -> Numbers:
        """By number, the time of device work that it launched itself; of such work, its duration."""
        launched = launched_ns(self.recording)
        column = self._with_hidden(launched)
        on_device = np.flatnonzero(self._is_device_row)
        column[on_device] = self.end_ns[on_device] - self.start_ns[on_device]
        return column

    @cached_property
    def total_device_ns(self) -> Numbers:
        """By number, `self_device_ns` of it and all in it."""
        totals: Numbers = self.self_device_ns.copy()
        launched = (self.self_device_ns[: self.first_step] != 0) & ~self._is_device_row
        for number in np.flatnonzero(launched).tolist():
            above = int(self.parent[number])
            while above >= 0:
                totals[above] += self.self_device_ns[number]
                above = int(self.parent[above])
        return totals

    @cached_property
    def launched(self) -> dict[int, list[int]]:
        """By number of an event, the rows of device work that it launched itself."""
        found: dict[int, list[int]] = {}
        calls, work = launches(self.recording)
        owner = nearest(self.recording.tree().parent, self.row_visible & self._is_op_row)
        for call, row in zip(calls.tolist(), work.tolist(), strict=True):
            found.setdefault(int(owner[call]) if owner[call] >= 0 else call, []).append(row)
        return found

    @cached_property
    def launcher(self) -> dict[int, int]:
        """By row of device work, the number of the event that launched it."""
        return {row: number for number, rows in self.launched.items() for row in rows}

    def is_on_device(self, number: int) -> bool:
        """Whether an event ran on a device."""
        return self.has_devices and number < self.first_step and bool(self._is_device_row[number])

    @cached_property
    def has_devices(self) -> bool:
        """Whether anything ran on a device."""
        return bool(self._is_device_row.any())

    @cached_property
    def device_numbers(self) -> Numbers:
        """Numbers of the events that ran on a device."""
        return np.flatnonzero(self._is_device_row & self.row_visible)

    @cached_property
    def async_numbers(self) -> Numbers:
        """Numbers of the events on threads that are asynchronous."""
        flags = self.recording.events.flags & (EventFlags.ASYNC | EventFlags.OTHER_THREAD)
        return np.flatnonzero((flags != 0) & self.row_visible & ~self._is_device_row)

    def memory_name(self, number: int) -> str:
        """The name of an event of memory outside all others."""
        failed = self.out_of_memory[number - self.first_memory]
        return OUT_OF_MEMORY_NAME if failed else MEMORY_NAME

    @cached_property
    def out_of_memory(self) -> npt.NDArray[np.bool_]:
        """Of the events of memory, which are requests that failed."""
        return np.asarray((self.lone_memory["flags"] & MemoryFlags.OUT_OF_MEMORY) != 0, dtype=bool)

    @cached_property
    def _is_device_row(self) -> npt.NDArray[np.bool_]:
        events = self.recording.events
        is_work = np.isin(events.kind, _DEVICE_KINDS)
        return is_work & self.is_device_track[events.track] if len(events) else is_work

    @cached_property
    def _is_op_row(self) -> npt.NDArray[np.bool_]:
        return ~np.isin(self.recording.events.kind, (EventKind.RUNTIME, EventKind.DRIVER))

    def _visible_rows(self) -> npt.NDArray[np.bool_]:
        recording = self.recording
        hidden_names = [
            name_id for name_id in range(recording.name_count) if recording.name(name_id) in _HIDDEN_NAMES
        ]
        visible = ~np.isin(recording.events.name, hidden_names)
        visible &= ~np.isin(recording.events.kind, [*_HIDDEN_KINDS, *self.options.left_out])
        if not self.options.with_cpu:
            device_kinds = (*_DEVICE_KINDS, EventKind.RUNTIME, EventKind.DRIVER, EventKind.SYNC)
            visible &= np.isin(recording.events.kind, device_kinds)
        return np.asarray(visible, dtype=bool)

    def _find_lone_memory(self, row_parent: Numbers) -> npt.NDArray[np.void]:
        """Allocations and frees in no event, and requests that failed."""
        memory = self.recording.memory
        if not self.options.with_cpu or not len(memory):
            return memory[:0]
        owner = memory["event"]
        is_in_event = owner >= 0
        rows = owner[is_in_event]
        is_in_event[is_in_event] = self.row_visible[rows] | (row_parent[rows] >= 0)
        is_lone = ~is_in_event | ((memory["flags"] & MemoryFlags.OUT_OF_MEMORY) != 0)
        return np.asarray(memory[is_lone])

    def _self_of_rows(self, row_parent: Numbers) -> Numbers:
        """Self times, those of what is hidden given to what encloses it."""
        self_ns: Numbers = self.recording.tree().self_ns.copy()
        hidden = np.flatnonzero(~self.row_visible & (row_parent >= 0))
        np.add.at(self_ns, row_parent[hidden], self_ns[hidden])
        return self_ns

    def _with_hidden(self, of_rows: Numbers) -> Numbers:
        column = np.append(of_rows, np.zeros(len(self) - len(of_rows), dtype=np.int64))
        hidden = np.flatnonzero(~self.row_visible)
        hidden = hidden[self.parent[hidden] >= 0]
        np.add.at(column, self.parent[hidden], column[hidden])
        return column

    def _with_steps(self, of_rows: Numbers) -> Numbers:
        column = np.append(of_rows, np.zeros(len(self) - len(of_rows), dtype=np.int64))
        in_step = np.flatnonzero(
            self.visible
            & (self.parent >= self.first_step)
            & (self.parent < self.first_memory)
            & (np.arange(len(self)) < self.first_step)
        )
        np.add.at(column, self.parent[in_step], column[in_step])
        return column

    def _enclose_in_steps(self) -> None:
        """Puts the outermost events of each step into it, and it into what encloses it."""
        tracks = self.recording.events.track
        is_async = (self.recording.events.flags & (EventFlags.ASYNC | EventFlags.OTHER_THREAD)) != 0
        for place, step in enumerate(self.steps):
            number = self.first_step + place
            first, end = np.searchsorted(tracks, [step.track, step.track + 1])
            begin = first + int(np.searchsorted(self.start_ns[first:end], step.start_ns))
            stop = first + int(np.searchsorted(self.start_ns[first:end], step.end_ns))
            around = self._enclosing(first, begin, step.start_ns, step.end_ns)
            inside = np.arange(begin, stop)
            outermost = inside[
                self.row_visible[begin:stop]
                & (self.parent[begin:stop] == around)
                & (self.end_ns[begin:stop] <= step.end_ns)
            ]
            self.parent[number] = around
            self.parent[outermost] = number
            timed = outermost[~is_async[outermost]]
            covered_ns = int((self.end_ns[timed] - self.start_ns[timed]).sum())
            self.self_ns[number] = max(step.end_ns - step.start_ns - covered_ns, 0)
            if around >= 0:
                self.self_ns[around] -= min(self.self_ns[number], self.self_ns[around])

    def _enclosing(self, first: int, begin: int, start_ns: int, end_ns: int) -> int:
        """The innermost visible event of a track, of the rows from `first`, that encloses a time."""
        around = begin - 1
        if around < first:
            return -1
        if not self.row_visible[around]:
            around = int(self.parent[around])
        while around >= 0 and (
            around >= self.first_step or self.end_ns[around] < end_ns or self.start_ns[around] > start_ns
        ):
            around = int(self.parent[around])
        return around

    @cached_property
    def _children(self) -> tuple[Numbers, Numbers]:
        numbers = self.in_order[self.parent[self.in_order] >= 0]
        parents = self.parent[numbers]
        by_parent = numbers[np.argsort(parents, kind="stable")]
        counts = np.bincount(parents, minlength=len(self))
        return by_parent, np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])


def _join(*columns: npt.ArrayLike) -> Numbers:
    return np.concatenate([np.asarray(column, dtype=np.int64) for column in columns])


def _parents(parent: Numbers, visible: npt.NDArray[np.bool_]) -> Numbers:
    """By row, the nearest visible one that encloses it; -1 = none."""
    return np.where(parent < 0, -1, nearest(parent, visible)[parent])
