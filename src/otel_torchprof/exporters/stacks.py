"""Folded stacks, the input of flame graphs: `outer;inner <microseconds of self time>`, one line a stack."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from otel_torchprof.exporters.merged_stacks import merge_stacks
from otel_torchprof.exporters.output_file import OutputFile
from otel_torchprof.recording import Recording, TrackKind

suffixes = (".folded", ".stacks", ".collapsed")

_LINES_AT_ONCE = 4096
_NS_PER_MICROSECOND = 1000


def export(recording: Recording, path: Path) -> dict[str, int]:
    """Writes the stacks of all threads, equal ones added up; streams of devices have none.

    Times are rounded to the nearest microsecond, after adding up. In names a semicolon, which separates
    frames, becomes a colon, and what would break a line an escape.

    Returns:
        `stacks` (lines) and `size_bytes`.
    """
    count = 0
    with OutputFile(path) as file:
        lines: list[str] = []
        for stack, self_us in folded_stacks(recording):
            lines.append(f"{stack} {self_us}\n")
            count += 1
            if len(lines) == _LINES_AT_ONCE:
                file.write("".join(lines).encode("utf-8", "replace"))
                lines.clear()
        file.write("".join(lines).encode("utf-8", "replace"))
    return {"stacks": count, "size_bytes": file.size_bytes}


def folded_stacks(recording: Recording) -> Iterator[tuple[str, int]]:
    """Stacks and their self time in microseconds, those of 0 left out; callers before what they call."""
    on_thread = np.array([track.kind != TrackKind.STREAM for track in recording.tracks], dtype=bool)
    rows = np.flatnonzero(on_thread[recording.events.track]) if len(recording) else np.empty(0, np.int64)
    # By what is written, so that overloads of an op are one frame.
    numbers: dict[str, int] = {}
    frame_of_name = np.array(
        [
            numbers.setdefault(_frame(recording.name(name_id)), len(numbers))
            for name_id in range(recording.name_count)
        ]
    )
    frames = list(numbers)
    tree = recording.tree()
    merged = merge_stacks(tree.parent, frame_of_name[recording.events.name], rows, max_depth=len(recording))
    self_ns = merged.sum_of_rows(tree.self_ns)
    self_us = (self_ns + _NS_PER_MICROSECOND // 2) // _NS_PER_MICROSECOND
    parent_of, frame_of = merged.parent.tolist(), merged.name.tolist()
    for node in np.flatnonzero(self_us).tolist():
        stack: list[str] = []
        above = node
        while above >= 0:
            stack.append(frames[frame_of[above]])
            above = parent_of[above]
        yield ";".join(reversed(stack)), int(self_us[node])


def _frame(name: str) -> str:
    frame = name.replace(";", ":") or "(no name)"
    if frame.isprintable():
        return frame
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in frame)
