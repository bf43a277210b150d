"""Small Chrome traces for tests: written here, imported through the public function."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from otel_torchprof.importers import ImportReport, load
from otel_torchprof.recording import Recording

Json = dict[str, Any]


def import_text(folder: Path, text: str | bytes) -> tuple[Recording, ImportReport]:
    """Imports a file with this content."""
    path = folder / "trace"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load(path)


def import_events(folder: Path, events: Sequence[Json], **header: Any) -> tuple[Recording, ImportReport]:
    """Imports the object form of a trace with these events."""
    return import_text(folder, json.dumps({**header, "traceEvents": list(events)}))


def complete(name: str, ts: Any, dur: Any, **fields: Any) -> Json:
    """A complete event on thread 1 of process 1, unless `fields` says otherwise."""
    return {"ph": "X", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "cat": "cpu_op", **fields}


def times(recording: Recording) -> dict[str, tuple[int, int]]:
    """Start and end of each event by its name, which must be the only one."""
    columns = recording.events
    rows = {
        recording.event_name(row): (int(columns.start_ns[row]), int(columns.end_ns[row]))
        for row in range(len(recording))
    }
    assert len(rows) == len(recording)
    return rows


def row_of(recording: Recording, name: str) -> int:
    """The row of the first event of a name."""
    return next(row for row in range(len(recording)) if recording.event_name(row) == name)


def links(recording: Recording) -> list[tuple[str, str, int]]:
    """All links, by the names of what they link."""
    columns = recording.links
    return [
        (recording.event_name(int(a)), recording.event_name(int(b)), int(kind))
        for a, b, kind in zip(columns.from_event, columns.to_event, columns.type, strict=True)
    ]
