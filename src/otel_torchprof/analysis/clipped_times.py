"""The part of events that lies in given intervals: of one that is open at a bound, what is inside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.merged_stacks import nearest
from otel_torchprof.recording import EventFlags, Recording

Numbers = npt.NDArray[np.int64]
_ASYNC = EventFlags.ASYNC | EventFlags.OTHER_THREAD


@dataclass(frozen=True, eq=False)
class ClippedTimes:
    """A row for each event and interval that it reaches into; times are ns.

    Attributes:
        row: of the event in its recording.
        interval: an index into the intervals.
        self_ns: what of its own time, in which no synchronous child goes on, lies in the interval.
    """

    row: Numbers
    interval: Numbers
    self_ns: Numbers

    @classmethod
    def of(
        cls, recording: Recording, rows: Numbers, until_ns: Numbers, start_ns: Numbers, end_ns: Numbers
    ) -> ClippedTimes:
        """Clips events to intervals.

        Args:
            rows: the events, each once.
            until_ns: of all events, see `innermost_until`.
            start_ns, end_ns: of the intervals, which are in order and do not overlap.
        """
        events = recording.events
        own = _Pieces.of(events.start_ns[rows], until_ns[rows], start_ns, end_ns)
        children, place = _children(recording, rows)
        covered = _Pieces.of(events.start_ns[children], until_ns[children], start_ns, end_ns)
        self_ns = own.ns.copy()
        # A child lies within its parent, so that the parent has a piece wherever the child has one.
        around = place[covered.index]
        np.subtract.at(self_ns, own.offset[around] + covered.interval - own.first[around], covered.ns)
        return cls(rows[own.index], own.interval, self_ns)


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Spans of time cut at the bounds of intervals.

    Attributes:
        first: of each span the first interval that it reaches into.
        offset: of each span where its pieces begin in the columns below.
        index: of each piece its span.
    """

    first: Numbers
    offset: Numbers
    index: Numbers
    interval: Numbers
    ns: Numbers

    @classmethod
    def of(cls, begin_ns: Numbers, end_ns: Numbers, starts_ns: Numbers, ends_ns: Numbers) -> _Pieces:
        first = np.searchsorted(ends_ns, begin_ns, side="right").astype(np.int64)
        after = np.searchsorted(starts_ns, end_ns, side="left")
        counts = np.maximum(after - first, 0)
        offset = np.cumsum(counts) - counts
        index = np.repeat(np.arange(len(begin_ns)), counts)
        interval = first[index] + np.arange(len(index)) - offset[index]
        lower_ns = np.maximum(begin_ns[index], starts_ns[interval])
        ns = np.minimum(end_ns[index], ends_ns[interval]) - lower_ns
        return cls(first, offset, index, interval, np.maximum(ns, 0))


def innermost_until(recording: Recording) -> Numbers:
    """When each event ends, or one begins that outlasts it and takes its place as the innermost.

    Slices cross where a scope outlasts the Python call that begins it. Each moment of a thread then belongs
    to the event begun last of those that go on, as it does anyway where they are nested. Ends of
    asynchronous events stay, as nothing else depends on them.
    """
    events, parent = recording.events, recording.tree().parent
    until_ns: Numbers = events.end_ns.copy()
    rows = np.flatnonzero(events.flags & _ASYNC == 0)
    # Of siblings the one right after, if any, begins before the end: what fits between is a child.
    siblings = np.where(parent[rows] >= 0, parent[rows], -1 - events.track[rows].astype(np.int64))
    order = np.argsort(siblings, kind="stable")
    rows, siblings = rows[order], siblings[order]
    crossed = np.flatnonzero(
        (siblings[1:] == siblings[:-1]) & (events.start_ns[rows[1:]] < events.end_ns[rows[:-1]])
    )
    if not len(crossed):
        return until_ns
    until_ns[rows[crossed]] = events.start_ns[rows[crossed + 1]]
    is_crossed = np.zeros(len(recording), dtype=bool)
    is_crossed[rows[crossed]] = True
    around = nearest(parent, is_crossed)
    # Outer ones first: a row is greater than that of what encloses it.
    for row in np.sort(rows[crossed]).tolist():
        above = int(around[parent[row]]) if parent[row] >= 0 else -1
        if above >= 0:
            until_ns[row] = min(until_ns[row], until_ns[above])
    inside = np.flatnonzero((around >= 0) & (events.flags & _ASYNC == 0))
    until_ns[inside] = np.minimum(until_ns[inside], until_ns[around[inside]])
    return until_ns


def innermost_self_ns(recording: Recording, until_ns: Numbers) -> Numbers:
    """For each event how long it was the innermost: its self time, unless slices cross.

    Args:
        until_ns: see `innermost_until`.
    """
    self_ns: Numbers = recording.tree().self_ns.copy()
    events = recording.events
    rows = np.flatnonzero(until_ns < events.end_ns)
    if len(rows):
        children, place = _children(recording, rows)
        own_ns = until_ns[rows] - events.start_ns[rows]
        np.subtract.at(own_ns, place, until_ns[children] - events.start_ns[children])
        self_ns[rows] = own_ns
    return self_ns


def _children(recording: Recording, rows: Numbers) -> tuple[Numbers, Numbers]:
    """The synchronous children of these, and of each the place of its parent in `rows`."""
    parent = recording.tree().parent
    place = np.full(len(recording) + 1, -1, dtype=np.int64)  # the last entry stands for no parent
    place[rows] = np.arange(len(rows))
    children = np.flatnonzero((place[parent] >= 0) & (recording.events.flags & _ASYNC == 0))
    return children, place[parent[children]]
