"""What perf events counted, for the page: by step, by thread, and over user spans by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from otel_torchprof.analysis.counters import Values, counter_totals, unit_of
from otel_torchprof.exporters.html_report.names import shown
from otel_torchprof.recording import Recording, Step, StepFlags, Track

MAX_COUNTER_ROWS = 1000


def counter_tables(recording: Recording) -> dict[str, Any]:
    """The tables, each with the texts of its rows and by row the values of the counters, null = not counted.

    Returns:
        `names` of the counters, their `units`, which are `estimated`; `steps`, `threads` and `spans`, each
        with `name`, `values` and the number of rows `left_out`; and the `total` of all threads.
    """
    totals = counter_totals(recording)
    steps = [_step_name(step) for step in recording.steps]
    threads = [_thread_name(recording.tracks[track]) for track in totals.tracks]
    return {
        "names": [shown(name) for name in totals.counters],
        "units": [unit_of(name) for name in totals.counters],
        "estimated": [name in totals.estimated for name in totals.counters],
        "steps": _table(steps, totals.by_step),
        "threads": _table(threads, totals.by_thread),
        "spans": _table([shown(name) for name in totals.events], totals.by_event)
        | {"calls": list(totals.calls[:MAX_COUNTER_ROWS])},
        "total": _plain(totals.total),
    }


def _table(names: list[str], values: Values) -> dict[str, Any]:
    return {
        "name": names[:MAX_COUNTER_ROWS],
        "values": [_plain(row) for row in values[:MAX_COUNTER_ROWS]],
        "left_out": max(len(names) - MAX_COUNTER_ROWS, 0),
    }


def _plain(values: Values) -> list[float | None]:
    return [None if np.isnan(value) else round(value) for value in values.tolist()]


def _step_name(step: Step) -> str:
    return f"step {step.number:,}" if StepFlags.HAS_NUMBER in step.flags else "the step"


def _thread_name(track: Track) -> str:
    return f"{shown(track.name)} ({track.thread_id})" if track.name else f"thread {track.thread_id}"
