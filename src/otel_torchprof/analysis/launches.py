"""Which event on a thread launched how much work on a device."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.merged_stacks import nearest
from otel_torchprof.recording import EventKind, LinkType, Recording

WORK_KINDS = (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET)
CALL_KINDS = (EventKind.RUNTIME, EventKind.DRIVER)
Numbers = npt.NDArray[np.int64]


def launched_ns(recording: Recording) -> Numbers:
    """By row, the time of the device work that the event launched itself.

    Calls of the driver's and the runtime's interface launch for whoever made them.
    """
    launched = np.zeros(len(recording), dtype=np.int64)
    launch, work = launches(recording)
    if not len(launch):
        return launched
    kind, parent = recording.events.kind, recording.tree().parent
    maker = nearest(parent, ~np.isin(kind, CALL_KINDS))[launch]
    events = recording.events
    # A call that nobody made keeps its work.
    np.add.at(launched, np.where(maker < 0, launch, maker), events.end_ns[work] - events.start_ns[work])
    return launched


def launches(recording: Recording) -> tuple[Numbers, Numbers]:
    """Rows of calls and, in the same places, of the work they launched; a piece of work comes once."""
    kind, links = recording.events.kind, recording.links
    is_launch = links.type == LinkType.LAUNCH
    ends = (links.from_event[is_launch].astype(np.int64), links.to_event[is_launch].astype(np.int64))
    work_at_start = np.isin(kind[ends[0]], WORK_KINDS)
    work = np.where(work_at_start, ends[0], ends[1])
    call = np.where(work_at_start, ends[1], ends[0])
    sound = np.isin(kind[work], WORK_KINDS) & ~np.isin(kind[call], WORK_KINDS)
    by_link = np.unique(work[sound], return_index=True)
    call, work = call[sound][by_link[1]], by_link[0]
    more_call, more_work = _by_correlation(recording, work)
    return np.concatenate([call, more_call]), np.concatenate([work, more_work])


def _by_correlation(recording: Recording, linked_work: Numbers) -> tuple[Numbers, Numbers]:
    """What links say nothing of, by the number that a call shares with its work."""
    kind, correlation = recording.events.kind, recording.events.correlation
    empty = np.empty(0, dtype=np.int64)
    if not len(correlation):
        return empty, empty
    calls = np.flatnonzero(np.isin(kind, CALL_KINDS) & (correlation > 0))
    is_work = np.isin(kind, WORK_KINDS) & (correlation > 0)
    is_work[linked_work] = False
    work = np.flatnonzero(is_work)
    if not len(calls) or not len(work):
        return empty, empty
    numbers, first = np.unique(correlation[calls], return_index=True)
    place = np.minimum(np.searchsorted(numbers, correlation[work]), len(numbers) - 1)
    found = numbers[place] == correlation[work]
    return calls[first[place[found]]], work[found]
