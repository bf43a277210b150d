"""Time of each step in which the program did not get on: waits, compilations, and code without events."""

from __future__ import annotations

import re
from enum import Enum

import numpy as np

from otel_torchprof.analysis.compilations import compilations
from otel_torchprof.analysis.coverage import Coverage
from otel_torchprof.analysis.device_use import blocking_rows
from otel_torchprof.analysis.event_names import is_named, without_step_number
from otel_torchprof.analysis.merged_stacks import nearest
from otel_torchprof.analysis.steps import NO_STEP, Mask, Numbers, StepTimes
from otel_torchprof.recording import EventKind, Recording, TrackKind

_NEXT_BATCH = re.compile(r"enumerate\(DataLoader\)#\w+\.__next__$")
_COLLECTIONS = ("gc.collect", "collect")  # torch.profiler leaves the module out


class Wait(Enum):
    """What a step waited for."""

    DATA = "waiting for data"
    DEVICE = "waiting for a device"
    COMPILATION = "compiling"
    COLLECTION = "collecting garbage"
    UNTRACED = "untraced code"  # of Python or not: the thread of the step was in no event


def step_waits(recording: Recording, times: StepTimes) -> dict[Wait, Numbers]:
    """By step the ns of each kind of wait that there is at all.

    A wait belongs to the step in which it begins. Collections of garbage are seen where calls of Python were
    recorded and the program asks for them.
    """
    events = recording.events
    is_scope = np.isin(events.kind, (EventKind.OP, EventKind.USER))
    of_data = is_scope & is_named(recording, lambda name: _NEXT_BATCH.match(name) is not None)
    of_collection = (events.kind == EventKind.PYTHON_C) & is_named(recording, _COLLECTIONS.__contains__)
    compiled = compilations(recording)
    first_run_ns = events.start_ns[compiled.rows]
    sums = {
        Wait.DATA: _of_events(recording, times, _outermost(recording, of_data)),
        Wait.DEVICE: _of_events(recording, times, blocking_rows(recording)),
        Wait.COMPILATION: _by_step(times, first_run_ns - compiled.cost_ns, compiled.cost_ns),
        Wait.COLLECTION: _of_events(recording, times, _outermost(recording, of_collection)),
        Wait.UNTRACED: _untraced_ns(recording, times),
    }
    return {wait: sum_ns for wait, sum_ns in sums.items() if sum_ns.any()}


def _outermost(recording: Recording, wanted: Mask) -> Numbers:
    """The rows that no other of them encloses."""
    rows = np.flatnonzero(wanted)
    if not len(rows):
        return rows
    parent = recording.tree().parent
    above = parent[rows]
    return rows[(above < 0) | (nearest(parent, wanted)[above] < 0)]


def _of_events(recording: Recording, times: StepTimes, rows: Numbers) -> Numbers:
    start_ns = recording.events.start_ns[rows]
    return _by_step(times, start_ns, recording.events.end_ns[rows] - start_ns)


def _by_step(times: StepTimes, start_ns: Numbers, duration_ns: Numbers) -> Numbers:
    step = times.at(start_ns)
    sums_ns = np.zeros(len(times), dtype=np.int64)
    inside = step != NO_STEP
    np.add.at(sums_ns, step[inside], duration_ns[inside])
    return sums_ns


def _untraced_ns(recording: Recording, times: StepTimes) -> Numbers:
    """The time of each step in which its thread was in no event but the mark of the step."""
    is_mark = is_named(recording, lambda name: without_step_number(name) != name)
    track = np.array([step.track for step in recording.steps], dtype=np.int64)
    empty_ns = np.zeros(len(times), dtype=np.int64)
    for index in np.unique(track).tolist():
        rows = np.flatnonzero((recording.events.track == index) & ~is_mark)
        if not len(rows) or recording.tracks[index].kind != TrackKind.THREAD:
            continue
        of_track = track == index
        covered = Coverage(recording.events.start_ns[rows], recording.events.end_ns[rows])
        covered_ns = covered.within(times.start_ns[of_track], times.end_ns[of_track])
        empty_ns[of_track] = times.duration_ns[of_track] - covered_ns
    return empty_ns
