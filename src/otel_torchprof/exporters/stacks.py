"""Folded stacks, the input of flame graphs: `outer;inner <microseconds of self time>`, one line a stack."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from otel_torchprof.exporters.output_file import OutputFile
from otel_torchprof.recording import Recording, TrackKind

suffixes = (".folded", ".stacks", ".collapsed")

_LINES_AT_ONCE = 4096
_NS_PER_MICROSECOND = 1000
Rows = npt.NDArray[np.int64]


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
    node_of_row, parents, names = _merge_stacks(recording, rows)
    self_ns = np.zeros(len(names), dtype=np.int64)
    np.add.at(self_ns, node_of_row[rows], recording.tree().self_ns[rows])
    self_us = (self_ns + _NS_PER_MICROSECOND // 2) // _NS_PER_MICROSECOND
    frames = {name: _frame(recording.name(name)) for name in set(names.tolist())}
    parent_of, name_of = parents.tolist(), names.tolist()
    for node in np.flatnonzero(self_us).tolist():
        stack: list[str] = []
        above = node
        while above >= 0:
            stack.append(frames[name_of[above]])
            above = parent_of[above]
        yield ";".join(reversed(stack)), int(self_us[node])


def _merge_stacks(recording: Recording, rows: Rows) -> tuple[Rows, Rows, Rows]:
    """The tree of distinct stacks: the node of each row, and the parent and name id of each node.

    Level by level, so that each level is a few array operations.
    """
    parent_row, name_of_row = recording.tree().parent, recording.events.name.astype(np.int64)
    node_of_row = np.full(len(recording), -1, dtype=np.int64)
    parents: list[Rows] = [np.empty(0, dtype=np.int64)]
    names: list[Rows] = [np.empty(0, dtype=np.int64)]
    nodes = 0
    for level in _levels(parent_row, rows):
        above = parent_row[level]
        parent_node = np.where(above >= 0, node_of_row[above], -1)
        keys = (parent_node + 1) * recording.name_count + name_of_row[level]
        distinct, first, place = np.unique(keys, return_index=True, return_inverse=True)
        node_of_row[level] = nodes + place
        parents.append(parent_node[first])
        names.append(name_of_row[level][first])
        nodes += len(distinct)
    return node_of_row, np.concatenate(parents), np.concatenate(names)


def _levels(parent_row: Rows, rows: Rows) -> Iterator[Rows]:
    """The rows by their depth, outermost first."""
    depth = np.zeros(len(parent_row), dtype=np.int64)
    # Doubling: after n rounds a row knows its depth among 2**n ancestors.
    jump = parent_row.copy()
    depth[jump >= 0] = 1
    while (inner := np.flatnonzero(jump >= 0)).size:
        depth[inner] += depth[jump[inner]]
        jump[inner] = jump[jump[inner]]
    order = rows[np.argsort(depth[rows], kind="stable")]
    if len(order):
        yield from np.split(order, np.flatnonzero(np.diff(depth[order])) + 1)


def _frame(name: str) -> str:
    frame = name.replace(";", ":") or "(no name)"
    if frame.isprintable():
        return frame
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in frame)
