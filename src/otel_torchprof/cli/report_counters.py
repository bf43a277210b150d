"""The counters of a recording on a terminal: by step, by thread, and over user spans by name."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from rich.console import Console

from otel_torchprof.analysis.counters import CounterTotals, Values, counter_totals, unit_of
from otel_torchprof.cli.table import ReportTable
from otel_torchprof.cli.text import NameCell, cell, duration
from otel_torchprof.recording import Recording, Step, StepFlags, Track

_MAX_ROWS = 20  # of each kind; --json has them all


def print_counters(console: Console, recording: Recording) -> None:
    """Prints nothing for a recording without counters."""
    totals = counter_totals(recording)
    if not totals:
        return
    console.print()
    # Those that were asked for first stay where there is no room for all.
    table = ReportTable(("over",), totals.counters, title="counters", spare=totals.counters[:0:-1])
    left = 0
    for rows in (_steps(recording, totals), _threads(recording, totals), _events(totals)):
        for name, values in rows[:_MAX_ROWS]:
            _add_row(table, totals, name, values)
        left += max(len(rows) - _MAX_ROWS, 0)
    _add_row(table, totals, "all threads", totals.total)
    console.print(table)
    if left:
        console.print(f"... {left} more rows (--json shows all)")
    if totals.estimated:
        names = ", ".join(sorted(totals.estimated))
        console.print(cell(f"scaled up, as they counted for a part of the time only: {names}"))


def json_counters(recording: Recording) -> dict[str, Any]:
    """The same as JSON values, null where nothing was counted; nothing for a recording without counters."""
    totals = counter_totals(recording)
    if not totals:
        return {}

    def named(values: Iterable[float]) -> dict[str, float | None]:
        return {
            counter: None if math.isnan(value) else value
            for counter, value in zip(totals.counters, values, strict=True)
        }

    return {
        "counters": {
            "names": list(totals.counters),
            "estimated": sorted(totals.estimated),
            "steps": [
                {"number": step.number, "values": named(values)}
                for step, values in zip(recording.steps, totals.by_step.tolist(), strict=True)
            ],
            "threads": [
                {
                    "name": recording.tracks[track].name,
                    "id": recording.tracks[track].thread_id,
                    "values": named(values),
                }
                for track, values in zip(totals.tracks, totals.by_thread.tolist(), strict=True)
            ],
            "events": [
                {"name": name, "calls": calls, "values": named(values)}
                for name, calls, values in zip(
                    totals.events, totals.calls, totals.by_event.tolist(), strict=True
                )
            ],
            "total": named(totals.total.tolist()),
        }
    }


def _add_row(table: ReportTable, totals: CounterTotals, name: str, values: Values) -> None:
    texts = (_value(counter, value) for counter, value in zip(totals.counters, values.tolist(), strict=True))
    table.add_row(NameCell(name), *texts)


def _value(counter: str, value: float) -> str:
    if math.isnan(value):
        return "-"
    return duration(value) if unit_of(counter) == "ns" else f"{value:,.0f}"


def _steps(recording: Recording, totals: CounterTotals) -> list[tuple[str, Values]]:
    return [(_step_name(step), values) for step, values in zip(recording.steps, totals.by_step, strict=True)]


def _step_name(step: Step) -> str:
    return f"step {step.number}" if StepFlags.HAS_NUMBER in step.flags else "the step"


def _threads(recording: Recording, totals: CounterTotals) -> list[tuple[str, Values]]:
    """Those that did most first."""
    by_first = totals.by_thread[:, 0] if totals.tracks else totals.by_thread
    order = sorted(range(len(totals.tracks)), key=lambda row: -by_first[row])
    return [(_thread_name(recording.tracks[totals.tracks[row]]), totals.by_thread[row]) for row in order]


def _thread_name(track: Track) -> str:
    return f"thread {track.name} ({track.thread_id})" if track.name else f"thread {track.thread_id}"


def _events(totals: CounterTotals) -> list[tuple[str, Values]]:
    return [
        (f"{name} ({calls:,} x)" if calls != 1 else name, values)
        for name, calls, values in zip(totals.events, totals.calls, totals.by_event, strict=True)
    ]
