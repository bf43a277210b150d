"""The steps: how long each took and what took the time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.coverage import Coverage
from otel_torchprof.exporters.html_report.tables import MAX_TABLE_ROWS, EventGroups
from otel_torchprof.recording import Recording, Step, StepFlags

MAX_BARS = 400
MAX_OPS_A_STEP = 40
Numbers = npt.NDArray[np.int64]


def step_bars(
    recording: Recording,
    groups: EventGroups,
    op_groups: Numbers,
    on_thread: npt.NDArray[np.bool_],
    busy: Coverage,
) -> dict[str, Any]:
    """Columns of bars. Of more than `MAX_BARS` steps, several share a bar, which shows the slowest of them.

    Args:
        op_groups: the groups in the order of the table of operators, whose rows `ops` refers to.
        on_thread: by row, whether the event is one of that table's.
        busy: when any device was.

    Returns:
        `number`, `phase`, `flags`, `start_ns`, `duration_ns`, `stands_for`, `device_ns`, `events`, `self_ns`
        (of all events that began in the step), `ops` ([table row, calls, self ns] of the costliest); and of
        all steps their `count`, and by table row `mean_self_ns` a step.
    """
    steps = recording.steps
    bars = _choose(steps)
    start_ns = np.array([step.start_ns for step in steps], dtype=np.int64)
    end_ns = np.array([step.end_ns for step in steps], dtype=np.int64)
    step_of_row = _steps_at(start_ns, end_ns, recording.events.start_ns)
    rows = np.flatnonzero((step_of_row >= 0) & on_thread)
    ops, sums = _sum_by_step(
        step_of_row[rows], groups, op_groups, rows, recording.tree().self_ns, [bar for bar, _count in bars]
    )
    in_steps = np.zeros(len(groups), dtype=np.int64)
    np.add.at(in_steps, groups.group_of_row[rows], recording.tree().self_ns[rows])
    device_ns = busy.within(start_ns, end_ns)
    return {
        "count": len(steps),
        "number": [_number(steps[step]) for step, _count in bars],
        "phase": [steps[step].phase.name.lower() for step, _count in bars],
        "partial": [not _is_whole(steps[step]) for step, _count in bars],
        "start_ns": [int(start_ns[step]) - recording.start_ns for step, _count in bars],
        "duration_ns": [steps[step].duration_ns for step, _count in bars],
        "stands_for": [count for _step, count in bars],
        "device_ns": [int(device_ns[step]) for step, _count in bars],
        "events": [events for events, _self_ns in sums],
        "self_ns": [self_ns for _events, self_ns in sums],
        "ops": ops,
        "mean_self_ns": (in_steps[op_groups[:MAX_TABLE_ROWS]] // max(len(steps), 1)).tolist(),
        "median_ns": _median_ns(steps),
        "total_ns": int((end_ns - start_ns).sum()),
    }


def _choose(steps: tuple[Step, ...]) -> list[tuple[int, int]]:
    """The steps that get a bar and how many each stands for."""
    size = -(-len(steps) // MAX_BARS) or 1
    runs = [range(begin, min(begin + size, len(steps))) for begin in range(0, len(steps), size)]
    return [(max(run, key=lambda step: steps[step].duration_ns), len(run)) for run in runs]


def _is_whole(step: Step) -> bool:
    return not step.flags & (StepFlags.PARTIAL | StepFlags.UNFINISHED)


def _median_ns(steps: tuple[Step, ...]) -> int:
    """Of the steps that were recorded whole, where there are any."""
    lasted_ns = [step.duration_ns for step in steps if _is_whole(step)] or [
        step.duration_ns for step in steps
    ]
    return int(np.median(lasted_ns)) if lasted_ns else 0


def _number(step: Step) -> int | None:
    return step.number if StepFlags.HAS_NUMBER in step.flags else None


def _steps_at(start_ns: Numbers, end_ns: Numbers, times_ns: Numbers) -> Numbers:
    """The step that goes on at each time, the one begun last where several do; -1 = none."""
    if not len(start_ns):
        return np.full(len(times_ns), -1, dtype=np.int64)
    step = np.searchsorted(start_ns, times_ns, side="right") - 1
    going_on = (step >= 0) & (times_ns < end_ns[step])
    return np.where(going_on, step, -1)


def _sum_by_step(
    step_of_row: Numbers,
    groups: EventGroups,
    op_groups: Numbers,
    rows: Numbers,
    self_ns: Numbers,
    steps: list[int],
) -> tuple[list[list[list[int]]], list[tuple[int, int]]]:
    """For each of `steps` its costliest operators, and its events and their self time."""
    cells, place, calls = np.unique(
        step_of_row * len(groups) + groups.group_of_row[rows], return_inverse=True, return_counts=True
    )
    cell_self_ns = np.zeros(len(cells), dtype=np.int64)
    np.add.at(cell_self_ns, place.reshape(-1), self_ns[rows])
    table_row = np.full(len(groups), -1, dtype=np.int64)
    table_row[op_groups] = np.arange(len(op_groups))
    width = max(len(groups), 1)
    ops: list[list[list[int]]] = []
    sums: list[tuple[int, int]] = []
    for step in steps:
        begin, end = np.searchsorted(cells, [step * width, (step + 1) * width])
        costly = begin + np.argsort(-cell_self_ns[begin:end], kind="stable")[:MAX_OPS_A_STEP]
        columns = (table_row[cells[costly] % width], calls[costly], cell_self_ns[costly])
        known = (columns[0] >= 0) & (columns[0] < MAX_TABLE_ROWS)
        ops.append(np.column_stack([column[known] for column in columns]).tolist())
        sums.append((int(calls[begin:end].sum()), int(cell_self_ns[begin:end].sum())))
    return ops, sums
