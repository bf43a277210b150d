"""The JSON that torch's `export_memory_timeline` writes, by the same numbers of categories and actions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from otel_torchprof.analysis.memory import Action
from otel_torchprof.exporters.html_report.memory import ShownMemory
from otel_torchprof.exporters.output_file import OutputFile

_NS_PER_MICROSECOND = 1000
_BEFORE = -1  # the time of what was there before
_ROWS_AT_ONCE = 8192


def write_totals(devices: Sequence[ShownMemory], path: Path) -> dict[str, int]:
    """`[times in us, [[0, bytes of each category], ...]]`: the state after each microsecond with a change."""
    if not devices:
        return _write(path, ["[[], []]"], {"devices": 0, "moments": 0, "peak_bytes": 0})
    events = devices[0].events
    time_us = events.time_ns // _NS_PER_MICROSECOND
    is_last = np.append(time_us[1:] != time_us[:-1], True)
    sizes = np.insert(events.totals()[is_last], 0, 0, axis=1)
    times = time_us[is_last]
    # Piece by piece: a row is a list of Python integers while it is being written.
    pieces = [
        f"[{json.dumps(times.tolist())}, [",
        *(
            ("" if begin == 0 else ", ") + json.dumps(sizes[begin : begin + _ROWS_AT_ONCE].tolist())[1:-1]
            for begin in range(0, len(sizes), _ROWS_AT_ONCE)
        ),
        "]]",
    ]
    counts = {"devices": len(devices), "moments": len(times), "peak_bytes": devices[0].peak.total_bytes}
    return _write(path, pieces, counts)


def write_raw(devices: Sequence[ShownMemory], path: Path) -> dict[str, int]:
    """`[[time in ns, action, bytes, category], ...]`; a new version is two, the first of them negative."""
    if not devices:
        return _write(path, ["[]"], {"devices": 0, "changes": 0, "peak_bytes": 0})
    events = devices[0].events
    time_ns = np.where(events.action == Action.PREEXISTING, _BEFORE, events.time_ns)
    order = np.argsort(time_ns, kind="stable")
    rows = np.column_stack([time_ns, events.action, events.delta_bytes, events.category])[order]
    pieces = [
        "[",
        *(
            ("" if begin == 0 else ", ") + json.dumps(rows[begin : begin + _ROWS_AT_ONCE].tolist())[1:-1]
            for begin in range(0, len(rows), _ROWS_AT_ONCE)
        ),
        "]",
    ]
    counts = {"devices": len(devices), "changes": len(rows), "peak_bytes": devices[0].peak.total_bytes}
    return _write(path, pieces, counts)


def _write(path: Path, pieces: Sequence[str], counts: dict[str, int]) -> dict[str, int]:
    with OutputFile(path) as file:
        for piece in pieces:
            file.write(piece.encode("ascii"))
    return {**counts, "size_bytes": file.size_bytes}
