"""Calls that go on when chosen steps begin or end: of these the table of the steps has what is inside.

So it has of calls that cross others, as the self times of the two overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.clipped_times import ClippedTimes, Numbers, innermost_self_ns, innermost_until
from otel_torchprof.analysis.coverage import Coverage
from otel_torchprof.analysis.event_names import STEP_MARK, is_named, without_step_number
from otel_torchprof.analysis.step_self_times import open_at_bounds, tracks_of_steps
from otel_torchprof.recording import Recording

Ranges = Sequence[tuple[int, int]]  # starts and ends, in ns
Key = tuple[str, str, int, int]  # name, overload, kind, shapes


@dataclass(frozen=True, slots=True)
class OpenGroup:
    """All calls of one group, one of which at least is open at a bound or crosses another.

    Times are ns within the steps.
    """

    first_row: int
    total_ns: int  # a call inside one of its group adds nothing
    self_change_ns: int  # against the whole self time of the calls that begin in the steps


class OpenCalls:
    """The groups of which a call crosses another, or is open when a range of time begins or ends.

    The latter on threads that have steps.
    """

    def __init__(self, recording: Recording, ranges: Ranges, *, by_shapes: bool, by_overload: bool) -> None:
        self._recording = recording
        self._shape_id = recording.input_shape_ids() if by_shapes else None
        self._by_overload = by_overload
        self._ranges = _union(ranges)

    def key_of(self, row: int) -> Key:
        """What an event is grouped by."""
        recording = self._recording
        name_id = int(recording.events.name[row])
        name = without_step_number(recording.name(name_id))
        overload = recording.overload_name(name_id) if self._by_overload else ""
        has_shapes = self._shape_id is not None and name != STEP_MARK
        shapes = int(self._shape_id[row]) if self._shape_id is not None and has_shapes else 0
        return name, overload, int(recording.events.kind[row]), shapes

    @cached_property
    def groups(self) -> dict[Key, OpenGroup]:
        """The groups, in order of their first open call."""
        recording = self._recording
        start_ns, end_ns = self._ranges.start_ns, self._ranges.end_ns
        events = recording.events
        until_ns = innermost_until(recording)
        every = np.arange(len(recording))
        begins, of_steps = self._begins(every), np.isin(events.track, tracks_of_steps(recording))
        is_crossed = begins & (until_ns < events.end_ns)
        is_clipped = open_at_bounds(recording, every, start_ns, end_ns) | (is_crossed & of_steps)
        change_ns = np.where(is_crossed, innermost_self_ns(recording, until_ns), 0)
        change_ns[is_clipped] = 0
        rows = np.flatnonzero(is_clipped)
        clipped = ClippedTimes.of(recording, rows, until_ns, start_ns, end_ns)
        np.add.at(change_ns, clipped.row, clipped.self_ns)
        rows = np.flatnonzero(is_clipped | is_crossed)
        change_ns[rows] -= np.where(begins, recording.tree().self_ns, 0)[rows]
        rows_of: dict[Key, list[int]] = {}
        for row in rows.tolist():
            rows_of.setdefault(self.key_of(row), []).append(row)
        total_ns = self._totals(rows_of)
        return {
            key: OpenGroup(of_key[0], total_ns[key], int(change_ns[of_key].sum()))
            for key, of_key in rows_of.items()
        }

    def _totals(self, open_rows: dict[Key, list[int]]) -> dict[Key, int]:
        """How long any call of each group went on, thread by thread."""
        events = self._recording.events
        names = {name for name, *_more in open_rows}
        of_name = is_named(self._recording, lambda name: without_step_number(name) in names)
        called = np.flatnonzero(of_name)
        called = called[self._begins(called)].tolist()
        rows_of: dict[tuple[Key, int], set[int]] = {}
        for row in (*called, *(row for rows in open_rows.values() for row in rows)):
            key = self.key_of(row)
            if key in open_rows:
                rows_of.setdefault((key, int(events.track[row])), set()).add(row)
        step_tracks = set(tracks_of_steps(self._recording))
        total_ns = dict.fromkeys(open_rows, 0)
        for (key, track), rows in rows_of.items():
            calls = Coverage(events.start_ns[sorted(rows)], events.end_ns[sorted(rows)])
            inside_ns = calls.within(self._ranges.start_ns, self._ranges.end_ns)
            total_ns[key] += int(inside_ns.sum()) if track in step_tracks else calls.total_ns
        return total_ns

    def _begins(self, rows: Numbers) -> npt.NDArray[np.bool_]:
        """Which of these begin in the ranges."""
        start_ns = self._recording.events.start_ns[rows]
        place = np.searchsorted(self._ranges.start_ns, start_ns, side="right") - 1
        begins: npt.NDArray[np.bool_] = (place >= 0) & (start_ns < self._ranges.end_ns[place])
        return begins


def lasted_ns(ranges: Ranges) -> int:
    """How long they last together."""
    return _union(ranges).total_ns


def _union(ranges: Ranges) -> Coverage:
    bounds = np.array(ranges, dtype=np.int64).reshape(-1, 2)
    return Coverage(bounds[:, 0], bounds[:, 1])
