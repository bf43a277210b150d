"""Which self time lies in which step, also of what was open already when the step began."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from otel_torchprof.analysis.clipped_times import ClippedTimes, innermost_self_ns, innermost_until
from otel_torchprof.analysis.event_names import is_step_mark
from otel_torchprof.analysis.merged_stacks import nearest
from otel_torchprof.analysis.steps import NO_STEP, Mask, Numbers, StepTimes
from otel_torchprof.recording import Recording


@dataclass(frozen=True, eq=False)
class StepSelfTimes:
    """A row for each event and step that it counts in.

    On a thread that has steps an event counts with what of it lies in each: the function that holds the loop
    has its own time in every step, though it began before them all. So the self times of a step's thread, and
    the time in which it was in no event, add up to what the step lasted. Of other threads an event belongs to
    the step in which it begins: what waits there for work all the time is no part of every step.

    Where slices cross, the time of both is that of the one begun last.

    A mark of a step does nothing itself: its own time is that of what encloses it, if anything does.

    Attributes:
        row: of the event in its recording, or of what the time of a mark is of.
        is_call: whether the event begins in this step.
    """

    row: Numbers
    step: Numbers
    self_ns: Numbers
    is_call: Mask

    @classmethod
    def of(cls, recording: Recording, times: StepTimes, rows: Numbers) -> StepSelfTimes:
        """Of some events."""
        start_ns = recording.events.start_ns[rows]
        step = times.at(start_ns)
        is_open = open_at_bounds(recording, rows, times.start_ns, times.until_ns)
        until_ns = innermost_until(recording)
        self_ns = innermost_self_ns(recording, until_ns)
        clipped = ClippedTimes.of(recording, rows[is_open], until_ns, times.start_ns, times.until_ns)
        whole = ~is_open & (step != NO_STEP)
        began = times.at(recording.events.start_ns[clipped.row])
        return cls(
            _doers(recording, np.concatenate([rows[whole], clipped.row])),
            np.concatenate([step[whole], clipped.interval]),
            np.concatenate([self_ns[rows[whole]], clipped.self_ns]),
            np.concatenate([np.ones(np.count_nonzero(whole), dtype=bool), began == clipped.interval]),
        )


def _doers(recording: Recording, rows: Numbers) -> Numbers:
    """The events themselves, and for marks of steps what encloses them; a mark that nothing does stays."""
    is_mark = is_step_mark(recording)
    marks = np.flatnonzero(is_mark[rows])
    if not len(marks):
        return rows
    parent = recording.tree().parent
    above = parent[rows[marks]]
    around = np.where(above >= 0, nearest(parent, ~is_mark)[above], above)
    doers: Numbers = rows.copy()
    doers[marks] = np.where(around >= 0, around, rows[marks])
    return doers


def open_at_bounds(recording: Recording, rows: Numbers, start_ns: Numbers, end_ns: Numbers) -> Mask:
    """Which events on threads that have steps are partly inside one of some intervals, and partly outside.

    Args:
        start_ns, end_ns: of the intervals, which are in order and do not overlap.
    """
    events = recording.events
    if not len(start_ns):
        return np.zeros(len(rows), dtype=bool)
    first = np.searchsorted(end_ns, events.start_ns[rows], side="right")  # the first to end after it begins
    known = np.minimum(first, len(start_ns) - 1)
    reaches = (first < len(start_ns)) & (events.end_ns[rows] > start_ns[known])
    is_inside = (events.start_ns[rows] >= start_ns[known]) & (events.end_ns[rows] <= end_ns[known])
    of_steps: Mask = reaches & ~is_inside & np.isin(events.track[rows], tracks_of_steps(recording))
    return of_steps


def tracks_of_steps(recording: Recording) -> list[int]:
    """The threads that have steps."""
    return sorted({step.track for step in recording.steps})
