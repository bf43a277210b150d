"""What differs in a step: calls and time by name against the median of the steps that count."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from otel_torchprof.analysis.averages import Side, is_on_side
from otel_torchprof.analysis.device_work import DeviceWork
from otel_torchprof.analysis.event_names import STEP_MARK, names_of, without_step_number
from otel_torchprof.analysis.step_self_times import StepSelfTimes
from otel_torchprof.analysis.step_sums import StepSums
from otel_torchprof.analysis.step_waits import step_waits
from otel_torchprof.analysis.steps import StepTimes
from otel_torchprof.analysis.work_totals import name_work
from otel_torchprof.recording import Recording


@dataclass(frozen=True, slots=True)
class StepChange:
    """One name, on one side; times are ns: on threads self time, on devices the time of the work."""

    name: str
    side: Side
    calls: int
    usual_calls: int  # the median
    time_ns: int
    usual_ns: int

    @property
    def change_ns(self) -> int:
        """By how much it took longer than usual."""
        return self.time_ns - self.usual_ns


@dataclass(frozen=True, slots=True)
class WaitChange:
    """One kind of wait, in ns."""

    name: str
    time_ns: int
    usual_ns: int


class StepComparison:
    """Compares steps of a recording with what is usual in it.

    Args:
        times: of its steps, if they are known already.
    """

    def __init__(self, recording: Recording, times: StepTimes | None = None) -> None:
        self.times = StepTimes.of(recording) if times is None else times
        events = recording.events
        rows = np.flatnonzero(is_on_side(Side.THREADS, events.kind))
        group, names = names_of(recording, rows, without_step_number)
        group_of_row = np.zeros(len(recording), dtype=np.int64)
        group_of_row[rows] = group
        own = StepSelfTimes.of(recording, self.times, rows)
        on_threads = StepSums.of(own.step, group_of_row[own.row], own.self_ns, len(names), own.is_call)
        work = DeviceWork.of(recording)
        named = name_work(work)
        work_names = [total.name for total in named.totals]
        on_devices = StepSums.of(self.times.at(work.start_ns), named.index, work.duration_ns, len(work_names))
        self._sides = ((Side.THREADS, names, on_threads), (Side.DEVICES, work_names, on_devices))
        self._waits = step_waits(recording, self.times)

    def changes(self, step: int) -> list[StepChange]:
        """Names that took more or less time than usual, the greatest difference first.

        None of a step of which events are missing: they may be what took the time. Marks of steps are left
        out: what of a step is their own time alone is among the waits.

        Args:
            step: an index into `Recording.steps`.
        """
        found: list[StepChange] = []
        if not self.times.is_complete[step]:
            return found
        for side, names, sums in self._sides:
            (calls, time_ns), (usual_calls, usual_ns) = sums.in_step(step), sums.medians(self.times.counts)
            differs = np.flatnonzero(time_ns != usual_ns)
            if side is Side.THREADS and STEP_MARK in names:
                differs = differs[differs != names.index(STEP_MARK)]
            columns = (column[differs].tolist() for column in (calls, usual_calls, time_ns, usual_ns))
            for group, *values in zip(differs.tolist(), *columns, strict=True):
                found.append(StepChange(names[group], side, *values))
        return sorted(found, key=lambda change: (-abs(change.change_ns), change.name))

    def waits(self, step: int) -> list[WaitChange]:
        """The waits of the step, or of a usual one; none of a step of which events are missing."""
        if not self.times.is_complete[step]:
            return []
        counts = self.times.counts
        changes = [
            WaitChange(wait.value, int(time_ns[step]), int(np.median(time_ns[counts])))
            for wait, time_ns in self._waits.items()
        ]
        return [change for change in changes if change.time_ns or change.usual_ns]
