"""Time of each step in which the program did not get on: waits, compilations, and code without events."""

from __future__ import annotations

import re
from enum import Enum

import numpy as np

from otel_torchprof.analysis.compilations import compilations
from otel_torchprof.analysis.coverage import Coverage
from otel_torchprof.analysis.device_use import blocking_rows
from otel_torchprof.analysis.event_names import is_named, is_step_mark
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
    BACKWARD = "backward on another thread"
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
        **_outside_events(recording, times),
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


def _outside_events(recording: Recording, times: StepTimes) -> dict[Wait, Numbers]:
    """The time of each step in which its thread was in no event but the mark of the step.

    As far as a backward ran on another thread of the process meanwhile, the step waited for that: who calls
    `backward` does nothing until it has ended.
    """
    is_mark = is_step_mark(recording)
    on_track = recording.events.track
    track_of_step = np.array([step.track for step in recording.steps], dtype=np.int64)
    backward_ns, untraced_ns = np.zeros((2, len(times)), dtype=np.int64)
    backward_tracks = _backward_tracks(recording, track_of_step)
    for track in np.unique(track_of_step).tolist():
        own = (on_track == track) & ~is_mark
        if not own.any() or recording.tracks[track].kind != TrackKind.THREAD:
            continue
        process_id = recording.tracks[track].process_id
        others = [other for other in backward_tracks if recording.tracks[other].process_id == process_id]
        chosen = track_of_step == track
        bounds = times.start_ns[chosen], times.end_ns[chosen]
        own_ns = _coverage(recording, own).within(*bounds)
        both_ns = _coverage(recording, own | np.isin(on_track, others)).within(*bounds)
        backward_ns[chosen] = both_ns - own_ns
        untraced_ns[chosen] = times.duration_ns[chosen] - both_ns
    return {Wait.BACKWARD: backward_ns, Wait.UNTRACED: untraced_ns}


def _coverage(recording: Recording, wanted: Mask) -> Coverage:
    events = recording.events
    return Coverage(events.start_ns[wanted], events.end_ns[wanted])


def _backward_tracks(recording: Recording, track_of_step: Numbers) -> list[int]:
    """Threads that mostly run functions of a backward, as autograd has one for each device."""
    is_backward = recording.native.backward_events().astype(bool)
    on_track = recording.events.track
    found: list[int] = []
    for track in np.setdiff1d(on_track[is_backward], track_of_step).tolist():
        if recording.tracks[track].kind == TrackKind.THREAD:
            backward_ns = _coverage(recording, is_backward & (on_track == track)).total_ns
            all_ns = _coverage(recording, on_track == track).total_ns
            found += [track] if 2 * backward_ns > all_ns else []
    return found
