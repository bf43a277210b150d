"""Which work was launched when its device had run dry: one rule for the report and for the patterns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.launches import CALL_KINDS, WORK_KINDS, launches
from otel_torchprof.recording import Recording

UNKNOWN = -1
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def devices_of(recording: Recording, rows: Numbers) -> Numbers:
    """The number of the device of each event; -1 = not known."""
    of_track = np.array([track.device for track in recording.tracks] or [UNKNOWN], dtype=np.int64)
    return of_track[recording.events.track[rows]]


def launch_ends_ns(recording: Recording) -> Numbers:
    """By row, when the call that launched it was over, unix ns; `UNKNOWN` for all else."""
    call, work = launches(recording)
    is_call = np.isin(recording.events.kind[call], CALL_KINDS)
    ends_ns = np.full(len(recording), UNKNOWN, dtype=np.int64)
    ends_ns[work[is_call]] = recording.events.end_ns[call[is_call]]
    return ends_ns


def dry_since_ns(recording: Recording) -> Numbers:
    """By row of device work, when all that began before it on its device had ended, unix ns.

    `UNKNOWN` where nothing did, and for all that is no work.
    """
    events = recording.events
    since_ns = np.full(len(recording), UNKNOWN, dtype=np.int64)
    work = np.flatnonzero(np.isin(events.kind, WORK_KINDS))
    device = devices_of(recording, work)
    for number in np.unique(device):
        rows = work[device == number]
        order = rows[np.argsort(events.start_ns[rows], kind="stable")]
        reach_ns = np.maximum.accumulate(events.end_ns[order])
        before = np.searchsorted(events.start_ns[order], events.start_ns[rows]) - 1
        since_ns[rows] = np.where(before >= 0, reach_ns[before], UNKNOWN)
    return since_ns


def is_late(recording: Recording) -> Mask:
    """By row, whether it is work whose call was over only when its device had nothing left to do.

    The first work of a device is not: there was nothing before it to be done with.
    """
    ends_ns, since_ns = launch_ends_ns(recording), dry_since_ns(recording)
    late: Mask = (ends_ns != UNKNOWN) & (since_ns != UNKNOWN) & (since_ns <= ends_ns)
    return late
