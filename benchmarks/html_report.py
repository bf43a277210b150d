"""The HTML report of a million events: time to write it, from a recording in memory, and its size.

Once as training is, the same few stacks over and over; once as bad as it gets, nearly every stack its own.
"""

from __future__ import annotations

import gc
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.rows import Row, Target
from otel_torchprof.exporters.html_report import write_report
from otel_torchprof.recording import Recording, RecordingBuilder

_DEPTH = 10
_STEPS = 1000


def run(quick: bool) -> list[Row]:
    """Seconds and bytes, for both shapes."""
    events, repeats = (100_000, 1) if quick else (1_000_000, 3)
    rows: list[Row] = []
    for label, names in (("as training is", 60), ("every stack its own", 3000)):
        seconds, size_bytes = _write(_recording(events, names), repeats)
        what = f"HTML report, {events:,} events, {label}"
        rows.append(Row(what, seconds, "s", target=Target("at most", 5, of="ours")))
        rows.append(Row(f"{what}: size", size_bytes / 1e6, "MB", target=Target("at most", 3, of="ours")))
    return rows


def _recording(events: int, names: int) -> Recording:
    """Towers of `_DEPTH` nested ops, in `_STEPS` steps; with few names the same 500 towers recur."""
    towers = events // _DEPTH
    builder = RecordingBuilder()
    track = builder.add_track("python")
    ids = np.array([builder.add_name(f"aten::op_{number}") for number in range(names)])
    draw = np.random.default_rng(0)
    kinds = 500 if names < 1000 else towers
    picked = ids[draw.integers(0, names, (kinds, _DEPTH))][draw.integers(0, kinds, towers)]
    start_ns = np.arange(towers)[:, None] * 1000 + np.arange(_DEPTH) * 10
    end_ns = np.arange(towers)[:, None] * 1000 + 900 - np.arange(_DEPTH) * 10
    builder.add_events(picked.ravel(), start_ns.ravel(), end_ns.ravel(), np.full(towers * _DEPTH, track))
    length_ns = towers * 1000 // _STEPS
    for step in range(_STEPS):
        builder.add_step(step * length_ns, (step + 1) * length_ns, step, track=track)
    return builder.finish()


def _write(recording: Recording, repeats: int) -> tuple[float, int]:
    """Median seconds, and the size in bytes."""
    times: list[float] = []
    size_bytes = 0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeats):
            # A new view of the same recording, so that nothing computed for the one before is at hand.
            view = Recording(recording.native)
            gc.collect()
            start = time.perf_counter()
            size_bytes = write_report(view, Path(folder) / "report.html")["size_bytes"]
            times.append(time.perf_counter() - start)
    return median(times), size_bytes
