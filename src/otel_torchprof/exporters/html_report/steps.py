"""The steps: how long each took, what took the time, and what differs from a usual step."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from otel_torchprof.analysis.coverage import Coverage
from otel_torchprof.analysis.step_sums import StepSums
from otel_torchprof.analysis.step_waits import step_waits
from otel_torchprof.analysis.steps import Mask, Numbers, StepTimes
from otel_torchprof.exporters.html_report.tables import MAX_TABLE_ROWS
from otel_torchprof.recording import Recording, Step, StepFlags

MAX_BARS = 400
MAX_SLOWEST = 8  # more bars, so that each of the slowest steps has one
MAX_OPS_A_STEP = 16  # those that took most time, and as many of those that differ most
MAX_WORK_A_STEP = 8  # likewise


@dataclass(frozen=True, eq=False)
class TimesByRow:
    """Events with the row that each belongs to in a table, of which the page may have the first ones only."""

    step: Numbers  # that each belongs to; several times where it goes on in several
    table_row: Numbers
    time_ns: Numbers
    is_call: Mask  # whether it begins in that step
    rows: int


def step_bars(
    recording: Recording, times: StepTimes, ops: TimesByRow, work: TimesByRow, busy: Coverage
) -> dict[str, Any]:
    """Columns of bars. Of more than `MAX_BARS` steps, several share a bar, which shows the slowest of them.

    Args:
        times: of the steps of the recording.
        ops: what ran on threads, with its self time and its row in the table of that.
        work: what ran on devices, likewise.
        busy: when any device was.

    Returns:
        By bar `number`, `first_number` (of the steps it stands for), `phase`, `lack` (what it is where it is
        no whole step, else empty), `start_ns`, `duration_ns`, `stands_for`, `device_ns`, `events`, `self_ns`
        (of all `ops` in the step), `ops` and `work` ([table row, calls, ns]); of all steps their `count`, how
        many are `counted` in medians, `median_ns`, by table row `usual_ops` and `usual_work` (medians:
        `calls`, `time_ns`); the bars of the `slowest` steps, as far as they are above the median; and `waits`
        with their `name`, `median_ns` and by bar their `time_ns`.
    """
    steps = recording.steps
    slowest = [step for step in times.slowest(MAX_SLOWEST) if times.duration_ns[step] > times.median_ns]
    runs = _runs(len(times), slowest)
    bars = [max(run, key=lambda step: (times.counts[step], times.duration_ns[step])) for run in runs]
    of_ops, of_work = (_Details(times, table) for table in (ops, work))
    sums = [of_ops.sums.in_step(step) for step in bars]
    device_ns = busy.within(times.start_ns, times.end_ns)
    return {
        "count": len(steps),
        "counted": times.counted,
        "number": [_number(steps[step]) for step in bars],
        "first_number": [_number(steps[run[0]]) for run in runs],
        "phase": [steps[step].phase.name.lower() for step in bars],
        "lack": [times.lacks[step].value for step in bars],
        "start_ns": [int(times.start_ns[step]) - recording.start_ns for step in bars],
        "duration_ns": times.duration_ns[bars].tolist(),
        "stands_for": [len(run) for run in runs],
        "device_ns": device_ns[bars].tolist(),
        "events": [int(calls.sum()) for calls, _time_ns in sums],
        "self_ns": [int(time_ns.sum()) for _calls, time_ns in sums],
        "ops": [of_ops.most_telling(step, MAX_OPS_A_STEP) for step in bars],
        "work": [of_work.most_telling(step, MAX_WORK_A_STEP) for step in bars],
        "usual_ops": of_ops.usual(),
        "usual_work": of_work.usual(),
        "slowest": [bars.index(step) for step in slowest],
        "waits": [
            {
                "name": wait.value,
                "median_ns": int(np.median(time_ns[times.counts])),
                "time_ns": time_ns[bars].tolist(),
            }
            for wait, time_ns in step_waits(recording, times).items()
        ],
        "median_ns": times.median_ns,
    }


def _runs(steps: int, slowest: list[int]) -> list[range]:
    """The steps that share a bar, no two of the slowest among them."""
    size = -(-steps // MAX_BARS) or 1
    bounds = {*range(0, steps, size), steps}
    bounds |= {one + 1 for one, other in pairwise(sorted(slowest)) if one // size == other // size}
    return [range(begin, end) for begin, end in pairwise(sorted(bounds))]


def _number(step: Step) -> int | None:
    return step.number if StepFlags.HAS_NUMBER in step.flags else None


class _Details:
    """What steps say of the rows of a table."""

    def __init__(self, times: StepTimes, table: TimesByRow) -> None:
        self.sums = StepSums.of(table.step, table.table_row, table.time_ns, table.rows, table.is_call)
        self._usual_calls, self._usual_ns = self.sums.medians(times.counts)

    def usual(self) -> dict[str, list[int]]:
        """Of the rows that the page has, the medians."""
        columns = {"calls": self._usual_calls, "time_ns": self._usual_ns}
        return {name: column[:MAX_TABLE_ROWS].tolist() for name, column in columns.items()}

    def most_telling(self, step: int, most: int) -> list[list[int]]:
        """Row, calls and ns of the `most` rows that took most time, and of as many that differ most."""
        calls, time_ns = (column[:MAX_TABLE_ROWS] for column in self.sums.in_step(step))
        change_ns = np.abs(time_ns - self._usual_ns[:MAX_TABLE_ROWS])
        rows = np.union1d(*(_greatest(column, most) for column in (time_ns, change_ns)))
        columns: list[list[int]] = np.column_stack([rows, calls[rows], time_ns[rows]]).tolist()
        return columns


def _greatest(values: Numbers, most: int) -> Numbers:
    """The places of the greatest values above 0."""
    places = np.argsort(-values, kind="stable")[:most]
    return places[values[places] > 0]
