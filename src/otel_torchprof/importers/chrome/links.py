"""Who launched what, and which backward op belongs to which forward op: from correlation ids, flows and
sequence numbers. Nothing is linked that the trace does not say."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from otel_torchprof.importers.chrome.flows import FlowEnd, Flows
from otel_torchprof.importers.columns import EventDraft
from otel_torchprof.importers.report import ImportReport
from otel_torchprof.recording import EventFlags, EventKind, LinkType, RecordingBuilder

Rows = npt.NDArray[np.int64]

LAUNCHED_KINDS = (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET, EventKind.SYNC)
CALL_KINDS = (EventKind.RUNTIME, EventKind.DRIVER)


class SliceIndex:
    """Finds the slice that a flow's end is bound to."""

    def __init__(self, draft: EventDraft) -> None:
        instants = draft.column("flags") & (EventFlags.INSTANT | EventFlags.ASYNC) != 0
        rows = np.flatnonzero(~instants)
        track, start, end = (draft.column(name)[rows] for name in ("track", "start_ns", "end_ns"))
        order = np.lexsort((-end, start, track))
        self._rows, self._track, self._start, self._end = rows[order], track[order], start[order], end[order]
        bounds = np.searchsorted(self._track, np.arange(int(track.max(initial=0)) + 2))
        self._bounds: list[int] = bounds.tolist()

    def find(self, end: FlowEnd, *, outermost_start: bool = False) -> int:
        """The row of the innermost slice that holds a moment of a track; -1 = none.

        Args:
            outermost_start: of the slices that begin at this moment the outermost instead.
        """
        track, time_ns = end
        if track + 1 >= len(self._bounds):
            return -1
        begin, stop = self._bounds[track], self._bounds[track + 1]
        starts = self._start[begin:stop]
        last = begin + int(np.searchsorted(starts, time_ns, "right")) - 1
        if outermost_start:
            first = begin + int(np.searchsorted(starts, time_ns, "left"))
            if first <= last:
                return int(self._rows[first])
        # Slices that enclose others stand before them; few steps back find one that is still open.
        for index in range(last, max(begin, last - 256) - 1, -1):
            if self._end[index] >= time_ns:
                return int(self._rows[index])
        return -1


def add_launch_links(
    draft: EventDraft,
    flows: Flows,
    external_ids: npt.NDArray[np.void],
    ops_by_external_id: Callable[[], Mapping[int, int]],
    builder: RecordingBuilder,
    report: ImportReport,
) -> None:
    """Links what ran on a device to the call that launched it: by correlation id, else by a flow, else to the
    op whose external id it bears."""
    kinds, correlation, start = (draft.column(name) for name in ("kind", "correlation", "start_ns"))
    launched = np.flatnonzero(np.isin(kinds, LAUNCHED_KINDS))
    calls = np.flatnonzero(np.isin(kinds, CALL_KINDS) & (correlation >= 0))
    launchers = _by_correlation(correlation, start, launched, calls, report)

    if (launchers < 0).any():
        _link_by_flows(draft, flows, launched, launchers, report)
    if (launchers < 0).any():
        by_external_id = ops_by_external_id()
        external_of = dict(
            zip(external_ids["event"].tolist(), external_ids["external_id"].tolist(), strict=True)
        )
        for place in np.flatnonzero(launchers < 0):
            op = by_external_id.get(external_of.get(int(launched[place]), -1), -1)
            if op >= 0:
                launchers[place] = op
                report.counts["launches_linked_by_external_id"] += 1

    linked = launchers >= 0
    builder.add_links(launchers[linked], launched[linked], LinkType.LAUNCH)
    on_kernels = kinds[launched] == EventKind.KERNEL
    report.counts["kernels_linked"] = int(np.count_nonzero(linked & on_kernels))
    report.add_problem(
        "launch_not_found", int(np.count_nonzero(~linked & (kinds[launched] != EventKind.SYNC)))
    )


def _link_by_flows(
    draft: EventDraft, flows: Flows, launched: Rows, launchers: Rows, report: ImportReport
) -> None:
    pairs = list(flows.whole(LinkType.LAUNCH))
    if not pairs:
        return
    index = SliceIndex(draft)
    place_of = {int(row): place for place, row in enumerate(launched)}
    for from_end, to_end in pairs:
        place = place_of.get(index.find(to_end))
        if place is None or launchers[place] >= 0:
            continue
        launchers[place] = index.find(from_end)
        report.add_problem("flow_without_slice", int(launchers[place] < 0))


def add_other_links(
    draft: EventDraft,
    flows: Flows,
    torch_thread_ids: Mapping[int, int],
    builder: RecordingBuilder,
    report: ImportReport,
) -> None:
    """Links backward to forward ops where sequence numbers do not say it already, and other flows."""
    derived = _derivable_backward_rows(draft, torch_thread_ids)
    index: SliceIndex | None = None
    for link_type in (LinkType.FORWARD_BACKWARD, LinkType.OTHER):
        from_rows: list[int] = []
        to_rows: list[int] = []
        for from_end, to_end in flows.whole(link_type):
            index = index or SliceIndex(draft)
            from_row = index.find(from_end)
            to_row = index.find(to_end, outermost_start=True)
            if from_row < 0 or to_row < 0:
                report.add_problem("flow_without_slice")
            elif link_type == LinkType.OTHER:
                from_rows.append(from_row)
                to_rows.append(to_row)
            elif to_row not in derived:
                # From the backward op to its forward op, as sequence numbers link them.
                from_rows.append(to_row)
                to_rows.append(from_row)
        builder.add_links(from_rows, to_rows, link_type)


def infer_torch_thread_ids(draft: EventDraft) -> dict[int, int]:
    """By track, torch's number of its thread, which traces do not have.

    It is the one that backward ops give the thread of the forward ops with their sequence numbers.
    """
    sequence, forward_thread, track, kind = (
        draft.column(name) for name in ("sequence", "forward_thread", "track", "kind")
    )
    forward = np.flatnonzero((sequence >= 0) & (forward_thread == 0) & (kind == EventKind.OP))
    backward = np.flatnonzero((sequence >= 0) & (forward_thread != 0))
    if not len(forward) or not len(backward):
        return {}
    # Each pair of sequence and track once, joined with the backward ops of that sequence.
    order = np.lexsort((track[forward], sequence[forward]))
    numbers, tracks = sequence[forward][order], track[forward][order]
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (numbers[1:] != numbers[:-1]) | (tracks[1:] != tracks[:-1])
    numbers, tracks = numbers[is_new], tracks[is_new]
    first = np.searchsorted(numbers, sequence[backward], "left")
    votes: dict[tuple[int, int], int] = {}
    for offset in range(8):  # a number is seldom in use on more threads
        place = np.minimum(first + offset, len(numbers) - 1)
        hit = numbers[place] == sequence[backward]
        if not hit.any():
            break
        for thread, on_track in zip(
            forward_thread[backward][hit].tolist(), tracks[place[hit]].tolist(), strict=True
        ):
            votes[thread, on_track] = votes.get((thread, on_track), 0) + 1
    found: dict[int, int] = {}
    for (thread, on_track), _count in sorted(votes.items(), key=lambda item: -item[1]):
        if on_track not in found and thread not in found.values():
            found[on_track] = thread
    return found


def _by_correlation(
    correlation: npt.NDArray[np.int64],
    start: npt.NDArray[np.int64],
    launched: Rows,
    calls: Rows,
    report: ImportReport,
) -> Rows:
    """The call of each launched event; of several with one id, the last that began before it."""
    launchers = np.full(len(launched), -1, dtype=np.int64)
    if not len(calls) or not len(launched):
        return launchers
    calls = calls[np.lexsort((start[calls], correlation[calls]))]
    ids = correlation[calls]
    wanted = correlation[launched]
    first = np.searchsorted(ids, wanted, "left")
    count = np.searchsorted(ids, wanted, "right") - first
    found = (wanted >= 0) & (count > 0)
    launchers[found] = calls[first[found]]
    ambiguous = np.flatnonzero(found & (count > 1))
    for place in ambiguous:
        candidates = calls[first[place] : first[place] + count[place]]
        before = candidates[start[candidates] <= start[launched[place]]]
        launchers[place] = before[-1] if len(before) else candidates[0]
    report.add_problem("correlation_id_used_twice", len(ambiguous))
    return launchers


def _derivable_backward_rows(draft: EventDraft, torch_thread_ids: Mapping[int, int]) -> set[int]:
    """Backward ops whose forward op follows from their thread and sequence number."""
    track_of = {thread: track for track, thread in torch_thread_ids.items()}
    sequence, forward_thread, track, kind = (
        draft.column(name) for name in ("sequence", "forward_thread", "track", "kind")
    )
    forward = np.flatnonzero((sequence >= 0) & (forward_thread == 0) & (kind == EventKind.OP))
    known = set(zip(track[forward].tolist(), sequence[forward].tolist(), strict=True))
    backward = np.flatnonzero((sequence >= 0) & (forward_thread != 0))
    threads, sequences = forward_thread[backward].tolist(), sequence[backward].tolist()
    return {
        row
        for row, thread, number in zip(backward.tolist(), threads, sequences, strict=True)
        if (track_of.get(thread), number) in known
    }
