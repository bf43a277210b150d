"""The head of the report: what was recorded, where and when, and what is missing from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from otel_torchprof.exporters.html_report.names import shown
from otel_torchprof.recording import EventKind, Recording, TrackKind
from otel_torchprof.recording.unix_time import utc_text

# Metadata worth a line, in this order, by the key it has in our recordings or in what Kineto left.
_LINES = {
    "rank": "rank",
    "world_size": "world size",
    "run_id": "run",
    "torch_version": "torch",
    "python_version": "Python",
    "package_version": "recorded by otel-torchprof",
    "folded_events": "events folded into others",
    "cuda_runtime_version": "CUDA runtime",
    "cuda_driver_version": "CUDA driver",
}


def facts(recording: Recording, problems: Mapping[str, int]) -> dict[str, Any]:
    """What the head of the report shows.

    Args:
        problems: what was wrong with the input; the recording's own are added.
    """
    counts = np.bincount(recording.events.kind)
    kinds = {EventKind(kind).name.lower(): int(count) for kind, count in enumerate(counts) if count}
    return {
        "began": utc_text(recording.start_ns),
        "duration_ns": recording.end_ns - recording.start_ns,
        "events": len(recording),
        "kinds": dict(sorted(kinds.items(), key=lambda item: -item[1])),
        "threads": sum(track.kind == TrackKind.THREAD for track in recording.tracks),
        "stopped": recording.stopped,
        "lines": _lines(recording),
        "drops": _counts(recording.drops),
        "problems": _counts({**recording.problems, **problems}),
    }


def _lines(recording: Recording) -> list[list[str]]:
    metadata = recording.metadata
    kineto = metadata.get("kineto")
    known = {**(kineto if isinstance(kineto, dict) else {}), **metadata}
    values: dict[str, Any] = {"process": recording.process_id or None}
    values |= {label: known.get(key) for key, label in _LINES.items()}
    return [[label, shown(_text(value))] for label, value in values.items() if value not in (None, "")]


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _counts(counts: Mapping[str, int]) -> list[list[Any]]:
    return [[shown(name), count] for name, count in counts.items() if count]
