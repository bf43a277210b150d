"""The averages table: calls, total and self time by name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.event_names import STEP_MARK, without_step_number
from otel_torchprof.analysis.launches import WORK_KINDS
from otel_torchprof.analysis.open_calls import OpenCalls, lasted_ns
from otel_torchprof.analysis.profiler_windows import is_profiler_window
from otel_torchprof.errors import UnknownStepError
from otel_torchprof.recording import EventKind, InputList, InputValue, Recording, TensorInput

_MAX_RANGES = 10  # of steps in a message

Shapes = tuple["tuple[int, ...] | Shapes", ...]


class Side(Enum):
    """Where events of a kind ran: times of one side say nothing of those of another."""

    THREADS = "threads"
    DEVICES = "work on devices"
    MARKS = "marks over work on devices: where user scopes and waits were there"


def side_of(kind: EventKind) -> Side:
    """The side of events of a kind."""
    if kind in WORK_KINDS:
        return Side.DEVICES
    return Side.MARKS if kind in (EventKind.ANNOTATION, EventKind.SYNC) else Side.THREADS


def is_on_side(side: Side, kind: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which of these kinds are of events of a side; spans of a profiler's own run are of none."""
    of_kind = np.zeros(max(EventKind) + 1, dtype=bool)
    of_kind[[one for one in EventKind if side_of(one) is side]] = True
    on_side: npt.NDArray[np.bool_] = of_kind[kind] & ~is_profiler_window(kind)
    return on_side


@dataclass(frozen=True, slots=True)
class AveragesRow:
    """One group of events. Times are ns."""

    name: str
    overload: str  # empty unless grouped by it
    kind: EventKind
    shapes: Shapes | None  # sizes of each input, () for what is no tensor; None unless grouped by them
    calls: int  # 0 for what was open already when the chosen steps began
    total_ns: int  # a call inside a call of the same group adds nothing
    self_ns: int
    mean_ns: float  # total_ns / calls, 0 without calls
    # Of the self time of all groups of its side, 0 to 1; of what ran on threads in chosen steps, of the time
    # that these lasted: more than 1 where several threads worked.
    self_share: float
    # Allocated minus freed, counted as the times are; None where the recording has no memory.
    host_bytes: int | None = None
    self_host_bytes: int | None = None
    device_bytes: int | None = None
    self_device_bytes: int | None = None

    @property
    def side(self) -> Side:
        """Where its events ran."""
        return side_of(self.kind)


@dataclass(frozen=True, eq=False)
class Averages:
    """Groups in order of falling self time: as rows, and the same as columns."""

    rows: list[AveragesRow]
    calls: npt.NDArray[np.uint64]
    total_ns: npt.NDArray[np.int64]
    self_ns: npt.NDArray[np.int64]
    damaged_inputs: int  # events whose inputs could not be read, grouped as if they had none
    steps_ns: int | None  # how long the chosen steps lasted; None where all was chosen

    def __len__(self) -> int:
        return len(self.rows)


def averages(
    recording: Recording,
    group_by_shapes: bool = False,
    steps: Collection[int] | None = None,
    *,
    group_by_overload: bool = False,
) -> Averages:
    """Groups the events of a recording by name and kind; spans of a profiler's own run are left out.

    The numbered marks of steps, `ProfilerStep#N`, are one group.

    Args:
        group_by_shapes: keep events with inputs of different shapes apart; needs recorded shapes.
        steps: numbers of the steps to count, None = everything. A call belongs to the step that is going
            on when it starts, on whatever thread. Of what goes on when a step begins or ends on its thread,
            such as the function that holds the loop, the time inside the step counts.
        group_by_overload: keep overloads such as `aten::add.Tensor` and `aten::add.Scalar` apart.

    Raises:
        UnknownStepError: a step that the recording does not have; it names those that it has.
    """
    ranges = _step_ranges(recording, steps)
    name, kind, first_row, calls, total_ns, self_ns, *memory, damaged_inputs = recording.native.averages(
        recording.tree().native, group_by_overload, group_by_shapes, ranges
    )
    names = [without_step_number(recording.name(int(name_id))) for name_id in name]
    if STEP_MARK in names:
        kept, place = _merged_steps(names, kind)
        names, first_row = [names[group] for group in kept], first_row[kept]
        calls, total_ns, self_ns, *memory = (
            _summed(column, place, len(kept)) for column in (calls, total_ns, self_ns, *memory)
        )
    if ranges:
        going_on = OpenCalls(recording, ranges, by_shapes=group_by_shapes, by_overload=group_by_overload)
        first_row, calls, total_ns, self_ns = _with_open_calls(going_on, first_row, calls, total_ns, self_ns)
        names += [without_step_number(recording.event_name(row)) for row in first_row[len(names) :].tolist()]
    name, kind = recording.events.name[first_row], recording.events.kind[first_row]
    # By name where times are equal, so that the same recording always gives the same table.
    order = sorted(
        np.flatnonzero(~is_profiler_window(kind)).tolist(),
        key=lambda group: (-int(self_ns[group]), names[group], int(kind[group])),
    )
    sides = {group: side_of(EventKind(int(kind[group]))) for group in order}
    whole_self_ns = dict.fromkeys(Side, 0)
    for group, side in sides.items():
        whole_self_ns[side] += int(self_ns[group])
    steps_ns = None if ranges is None else lasted_ns(ranges)
    if steps_ns is not None:
        whole_self_ns[Side.THREADS] = steps_ns
    rows = [
        AveragesRow(
            name=names[group],
            overload=recording.overload_name(int(name[group])) if group_by_overload else "",
            kind=EventKind(int(kind[group])),
            shapes=_shapes(recording, int(first_row[group])) if group_by_shapes else None,
            calls=int(calls[group]),
            total_ns=int(total_ns[group]),
            self_ns=int(self_ns[group]),
            mean_ns=int(total_ns[group]) / int(calls[group]) if calls[group] else 0.0,
            self_share=int(self_ns[group]) / (whole_self_ns[sides[group]] or 1),
            **_memory_fields(memory, group),
        )
        for group in order
    ]
    return Averages(rows, calls[order], total_ns[order], self_ns[order], damaged_inputs, steps_ns)


def _with_open_calls(
    going_on: OpenCalls,
    first_row: npt.NDArray[Any],
    calls: npt.NDArray[Any],
    total_ns: npt.NDArray[Any],
    self_ns: npt.NDArray[Any],
) -> tuple[npt.NDArray[Any], ...]:
    """The columns with the times inside the steps; what was open already and is not called adds groups."""
    place_of_key = {going_on.key_of(row): place for place, row in enumerate(first_row.tolist())}
    added: list[int] = []
    for key, one in going_on.groups.items():
        if key not in place_of_key:
            place_of_key[key] = len(first_row) + len(added)
            added.append(one.first_row)
    first_row = np.append(first_row.astype(np.int64), np.array(added, dtype=np.int64))
    zeros = np.zeros(len(added), dtype=np.int64)
    calls, total_ns, self_ns = (
        np.append(column, zeros.astype(column.dtype)) for column in (calls, total_ns, self_ns)
    )
    for key, one in going_on.groups.items():
        place = place_of_key[key]
        total_ns[place] = one.total_ns
        self_ns[place] += one.self_change_ns
    return first_row, calls, total_ns, self_ns


def _merged_steps(names: Sequence[str], kind: npt.NDArray[Any]) -> tuple[list[int], npt.NDArray[np.int64]]:
    """The groups that stay when marks of steps are one, and for each group the place of the one it joins."""
    kept: list[int] = []
    place_of_mark: dict[tuple[str, int], int] = {}
    places: list[int] = []
    for group, name in enumerate(names):
        place = len(kept)
        if name == STEP_MARK:
            place = place_of_mark.setdefault((name, int(kind[group])), place)
        if place == len(kept):
            kept.append(group)
        places.append(place)
    return kept, np.array(places, dtype=np.int64)


def _summed(column: npt.NDArray[Any], place: npt.NDArray[np.int64], count: int) -> npt.NDArray[Any]:
    if not len(column):  # of memory that was not recorded
        return column
    sums = np.zeros(count, dtype=column.dtype)
    np.add.at(sums, place[: len(column)], column)
    return sums


def _memory_fields(memory: Sequence[npt.NDArray[np.int64]], group: int) -> dict[str, int]:
    names = ("host_bytes", "self_host_bytes", "device_bytes", "self_device_bytes")
    return {
        name: int(column[group]) for name, column in zip(names, memory, strict=True) if group < len(column)
    }


def _step_ranges(recording: Recording, steps: Collection[int] | None) -> list[tuple[int, int]] | None:
    if steps is None:
        return None
    wanted = set(steps)
    present = {step.number for step in recording.steps}
    missing = wanted - present
    if missing:
        raise UnknownStepError(f"the recording has no step {min(missing)}: {_named(present)}")
    return [(step.start_ns, step.end_ns) for step in recording.steps if step.number in wanted]


def _named(steps: Collection[int]) -> str:
    """Numbers of steps as a list of numbers and ranges, which is cut where there are many."""
    ranges: list[list[int]] = []
    for step in sorted(steps):
        if ranges and step == ranges[-1][-1] + 1:
            ranges[-1][1:] = [step]
        else:
            ranges.append([step])
    if not ranges:
        return "it has no steps"
    if len(steps) == 1:
        return f"its only step is {ranges[0][0]}"
    shown = [
        f"{ends[0]}{' to ' if ends[-1] > ends[0] + 1 else ', '}{ends[-1]}" if len(ends) > 1 else str(ends[0])
        for ends in ranges[:_MAX_RANGES]
    ]
    return f"its steps are {', '.join(shown)}{', ...' if len(ranges) > len(shown) else ''}"


def _shapes(recording: Recording, row: int) -> Shapes:
    return tuple(_shape(value) for value in recording.inputs(row) or ())


def _shape(value: InputValue) -> Shapes | tuple[int, ...]:
    if isinstance(value, TensorInput):
        return value.sizes
    if isinstance(value, InputList) and any(
        isinstance(item, (TensorInput, InputList)) for item in value.items
    ):
        return tuple(_shape(item) for item in value.items)
    return ()
