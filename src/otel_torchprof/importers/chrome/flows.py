"""The flows of a trace: which of their ends belong together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from otel_torchprof.importers.chrome.tracks import TrackTable
from otel_torchprof.importers.report import ImportReport
from otel_torchprof.recording import LinkType

Column = npt.NDArray[np.int64]

# One end of a flow: a track and a time.
FlowEnd = tuple[int, int]

# What flows of Kineto's categories mean, from 2021 to today.
_LINK_TYPES = {
    "fwdbwd": LinkType.FORWARD_BACKWARD,
    "forward_backward": LinkType.FORWARD_BACKWARD,
    "ac2g": LinkType.LAUNCH,
    "async": LinkType.LAUNCH,
    "async_cpu_to_gpu": LinkType.LAUNCH,
    "async_gpu": LinkType.LAUNCH,
}
_INT64 = range(-(1 << 63), 1 << 63)


class Flows:
    """Collects the ends of flows; those of one category family and id are ends of one flow.

    Kineto's categories of one meaning are a family, any other is one by itself. A flow has one start, the
    last with its id, and any number of ends.
    """

    def __init__(self) -> None:
        self._families: dict[Any, int] = {}
        self._link_types: list[LinkType] = []  # by family
        self._labels: dict[Any, int] = {}
        # Columns, in pieces: family, whether the id is a number of `_labels`, id, is start, place, time.
        self._pieces: list[npt.NDArray[np.int64]] = []
        self._odd: list[tuple[int, int, int, int, int, int]] = []
        self._from = self._to = self._family_of_end = np.empty(0, dtype=np.int64)
        self._tracks = self._times = np.empty(0, dtype=np.int64)

    def family(self, category: Any) -> int:
        """The number of the family of a category."""
        link_type = _LINK_TYPES.get(category, LinkType.OTHER)
        key = link_type if link_type != LinkType.OTHER else (category,)
        number = self._families.setdefault(key, len(self._families))
        if number == len(self._link_types):
            self._link_types.append(link_type)
        return number

    def add(self, category: Any, flow_id: Any, place: int, time_ns: int, *, is_start: bool) -> None:
        """Takes one end of any shape."""
        is_number = flow_id.__class__ is int and flow_id in _INT64
        number = flow_id if is_number else self._labels.setdefault(flow_id, len(self._labels))
        self._odd.append((self.family(category), int(not is_number), number, int(is_start), place, time_ns))

    def add_columns(
        self, families: Column, ids: Column, is_start: npt.NDArray[np.uint8], places: Column, times: Column
    ) -> None:
        """Takes many ends whose ids are integers."""
        columns = (families, np.zeros(len(ids), dtype=np.int64), ids, is_start, places, times)
        self._pieces.append(np.stack([column.astype(np.int64, copy=False) for column in columns]))

    def join(self, tracks: TrackTable, report: ImportReport) -> None:
        """Joins the ends, when all events are known, and counts the flows that have only one."""
        odd = np.array(self._odd, dtype=np.int64).reshape(-1, 6).T
        family, is_label, ids, is_start, place, self._times = np.concatenate([*self._pieces, odd], axis=1)
        self._pieces.clear()
        self._odd.clear()
        self._tracks = tracks.find(place)
        _, of_id = np.unique(ids, return_inverse=True)
        count = int(of_id.max(initial=0)) + 1
        flows, flow = np.unique((family * 2 + is_label) * count + of_id, return_inverse=True)
        starts = np.flatnonzero(is_start)
        ends = np.flatnonzero(is_start == 0)
        start_of = np.full(len(flows), -1, dtype=np.int64)
        start_of[flow[starts]] = starts
        has_end = np.zeros(len(flows), dtype=np.bool_)
        has_end[flow[ends]] = True
        from_start = start_of[flow[ends]]
        whole = from_start >= 0
        report.add_problem("flow_end_without_start", int(np.count_nonzero(~whole)))
        report.add_problem("flow_start_without_end", int(np.count_nonzero((start_of >= 0) & ~has_end)))
        self._from, self._to = from_start[whole], ends[whole]
        self._family_of_end = family[self._to]

    def whole(self, link_type: LinkType) -> Iterator[tuple[FlowEnd, FlowEnd]]:
        """The flows of a type with both ends, once for each end."""
        of_type = np.array([found == link_type for found in self._link_types], dtype=np.bool_)
        chosen = of_type[self._family_of_end]
        starts, ends = self._from[chosen], self._to[chosen]
        tracks, times = self._tracks, self._times
        from_ends = zip(tracks[starts].tolist(), times[starts].tolist(), strict=True)
        return zip(from_ends, zip(tracks[ends].tolist(), times[ends].tolist(), strict=True), strict=True)
