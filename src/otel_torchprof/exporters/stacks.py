"""Folded stacks, the input of flame graphs: `outer;inner <microseconds of self time>`, one line a stack."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.merged_stacks import MergedStacks, depths, merge_stacks
from otel_torchprof.analysis.profiler_windows import is_profiler_window
from otel_torchprof.exporters.output_file import OutputFile
from otel_torchprof.recording import EventKind, Recording, TrackKind

suffixes = (".folded", ".stacks", ".collapsed")

MAX_DEPTH = 512
"""Frames of a stack; what is deeper stands in one frame below them."""

_DEEPER = "(deeper)"
_BYTES_AT_ONCE = 1 << 20
_NS_PER_MICROSECOND = 1000


def export(recording: Recording, path: Path) -> dict[str, int]:
    """Writes the stacks of all threads, equal ones added up; streams of devices have none.

    Times are rounded to the nearest microsecond, after adding up. In names a semicolon, which separates
    frames, becomes a colon, and what would break a line an escape. Stacks deeper than `MAX_DEPTH` end in
    `(deeper)`: a line holds a whole stack, so that without a bound the file would grow with its square.

    Returns:
        `stacks` (lines), `cut_events` (deeper than that) and `size_bytes`.
    """
    return _write(FoldedStacks(recording), path)


def export_weighted(recording: Recording, path: Path, weights_ns: npt.NDArray[np.int64]) -> dict[str, int]:
    """As `export`, of other times than each event's own: one a row."""
    return _write(FoldedStacks(recording, weights_ns), path)


def _write(stacks: FoldedStacks, path: Path) -> dict[str, int]:
    count = 0
    with OutputFile(path) as file:
        pending = bytearray()
        for stack, self_us in stacks:
            pending += f"{stack} {self_us}\n".encode("utf-8", "replace")
            count += 1
            if len(pending) >= _BYTES_AT_ONCE:
                file.write(bytes(pending))
                pending.clear()
        file.write(bytes(pending))
    return {"stacks": count, "cut_events": stacks.cut_events, "size_bytes": file.size_bytes}


class FoldedStacks:
    """Stacks and their time in microseconds, those of 0 left out; callers before what they call.

    Args:
        weights_ns: by row, the time that counts for the stack that ends there; None takes self time.
    """

    def __init__(self, recording: Recording, weights_ns: npt.NDArray[np.int64] | None = None) -> None:
        on_thread = np.array([track.kind != TrackKind.STREAM for track in recording.tracks], dtype=bool)
        kind = recording.events.kind
        is_shown = on_thread[recording.events.track] if len(recording) else np.empty(0, dtype=bool)
        rows = np.flatnonzero(is_shown & ~is_profiler_window(kind))
        is_placed = np.isin(kind, (EventKind.PYTHON, EventKind.MODULE))
        placed = frozenset(np.unique(recording.events.name[is_placed]).tolist())
        # By what is written, so that overloads of an op are one frame.
        numbers: dict[str, int] = {}
        frame_of_name = np.array(
            [
                numbers.setdefault(_frame(_label(recording, name_id, placed)), len(numbers))
                for name_id in range(recording.name_count)
            ]
        )
        self._frames = list(numbers)
        tree = recording.tree()
        own_ns = tree.self_ns if weights_ns is None else weights_ns
        merged = merge_stacks(
            tree.parent, frame_of_name[recording.events.name], rows, max_depth=MAX_DEPTH - 1
        )
        self._parent_of, self._frame_of = merged.parent.tolist(), merged.name.tolist()
        is_deeper = depths(tree.parent) >= MAX_DEPTH
        self.cut_events = int(is_deeper[rows].sum())
        self._own_us = _sum_us(merged, np.where(is_deeper, 0, own_ns))
        self._deeper_us = _sum_us(merged, np.where(is_deeper, own_ns, 0))

    def __iter__(self) -> Iterator[tuple[str, int]]:
        for node in np.flatnonzero(self._own_us + self._deeper_us).tolist():
            stack = self._stack(node)
            if self._own_us[node]:
                yield stack, int(self._own_us[node])
            if self._deeper_us[node]:
                yield f"{stack};{_DEEPER}", int(self._deeper_us[node])

    def _stack(self, node: int) -> str:
        frames: list[str] = []
        while node >= 0:
            frames.append(self._frames[self._frame_of[node]])
            node = self._parent_of[node]
        return ";".join(reversed(frames))


def _sum_us(merged: MergedStacks, times_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Of each stack, to the nearest microsecond. Sums of nanoseconds could overflow where times are wrong."""
    whole_us, rest_ns = np.divmod(times_ns, _NS_PER_MICROSECOND)
    rest_us = (merged.sum_of_rows(rest_ns) + _NS_PER_MICROSECOND // 2) // _NS_PER_MICROSECOND
    return merged.sum_of_rows(whole_us) + rest_us


def _label(recording: Recording, name_id: int, placed: frozenset[int]) -> str:
    """Python functions with the place of their definition, modules with their path: names say little."""
    name, place = recording.name(name_id), recording.overload_name(name_id)
    return f"{name} ({place})" if place and name_id in placed else name


def _frame(name: str) -> str:
    frame = name.replace(";", ":") or "(no name)"
    if frame.isprintable():
        return frame
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in frame)
