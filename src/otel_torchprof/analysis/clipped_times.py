"""The part of events that lies in given intervals: of one that is open at a bound, what is inside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from otel_torchprof.recording import EventFlags, Recording

Numbers = npt.NDArray[np.int64]
_ASYNC = EventFlags.ASYNC | EventFlags.OTHER_THREAD


@dataclass(frozen=True, eq=False)
class ClippedTimes:
    """A row for each event and interval that it reaches into; times are ns.

    Attributes:
        row: of the event in its recording.
        interval: an index into the intervals.
        total_ns: how long the event went on in the interval.
        self_ns: what no synchronous child covers of that.
    """

    row: Numbers
    interval: Numbers
    total_ns: Numbers
    self_ns: Numbers

    @classmethod
    def of(cls, recording: Recording, rows: Numbers, start_ns: Numbers, end_ns: Numbers) -> ClippedTimes:
        """Clips events to intervals.

        Args:
            rows: the events, each once.
            start_ns, end_ns: of the intervals, which are in order and do not overlap.
        """
        events = recording.events
        own = _Pieces.of(events.start_ns[rows], events.end_ns[rows], start_ns, end_ns)
        place, child_start_ns, child_end_ns = _covered_by_children(recording, rows)
        covered = _Pieces.of(child_start_ns, child_end_ns, start_ns, end_ns)
        self_ns = own.ns.copy()
        # A child lies within its parent, so that the parent has a piece wherever the child has one.
        around = place[covered.index]
        np.subtract.at(self_ns, own.offset[around] + covered.interval - own.first[around], covered.ns)
        return cls(rows[own.index], own.interval, own.ns, self_ns)


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


def _covered_by_children(recording: Recording, rows: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Spans that synchronous children cover, none twice: the place in `rows` of their parent, start, end."""
    events, parent = recording.events, recording.tree().parent
    place = np.full(len(recording) + 1, -1, dtype=np.int64)  # the last entry stands for no parent
    place[rows] = np.arange(len(rows))
    children = np.flatnonzero((place[parent] >= 0) & (events.flags & _ASYNC == 0))
    children = children[np.argsort(place[parent[children]], kind="stable")]
    around = place[parent[children]]
    start_ns, end_ns = events.start_ns[children], events.end_ns[children]
    start_ns = np.maximum(start_ns, _reached_before(around, start_ns, end_ns))
    is_new = end_ns > start_ns
    return around[is_new], start_ns[is_new], end_ns[is_new]


def _reached_before(group: Numbers, start_ns: Numbers, end_ns: Numbers) -> Numbers:
    """How far those of the same group that stand before each reach, its own start if there are none."""
    before_ns: Numbers = start_ns.copy()
    is_second = group[1:] == group[:-1]
    before_ns[1:][is_second] = end_ns[:-1][is_second]
    # Slices that cross are rare: where none does, the one just before reaches farthest.
    for one in np.unique(group[1:][is_second & (start_ns[1:] < end_ns[:-1])]).tolist():
        begin, end = np.searchsorted(group, [one, one + 1]).tolist()
        before_ns[begin + 1 : end] = np.maximum.accumulate(end_ns[begin : end - 1])
    return before_ns
