"""What differs in one step, in `otel-torchprof report --step N`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from rich.console import Console

from otel_torchprof.analysis.averages import Side
from otel_torchprof.analysis.step_changes import StepChange, StepComparison
from otel_torchprof.analysis.step_waits import Wait
from otel_torchprof.analysis.steps import StepTimes
from otel_torchprof.cli.table import ReportTable
from otel_torchprof.cli.text import NameCell, duration
from otel_torchprof.recording import EventKind, Recording

_MAX_ROWS = 10  # of each kind; --json has them all
_TITLES = {Side.THREADS: "differs on threads, in self time", Side.DEVICES: "differs on devices"}


def print_step(console: Console, recording: Recording, times: StepTimes, numbers: Collection[int]) -> None:
    """Prints waits and names against the median step; nothing for several steps or without others.

    Of a step of which events are missing it says that.
    """
    compared = _compared(recording, times, numbers)
    if compared is None:
        return
    comparison, step = compared
    if not comparison.times.is_complete[step]:
        console.print()
        console.print(
            "the step is incomplete: events in it were dropped or cut off, so that nothing is said of"
        )
        console.print("what took its time (otel-torchprof info says how many, and why)")
        return
    waits = comparison.waits(step)
    if waits:
        # The only step that counts is the median itself.
        alone = comparison.times.counted == 1 and bool(comparison.times.counts[step])
        columns = ("this step",) if alone else ("this step", "median step", "difference")
        table = ReportTable(("waits and untraced code",), columns, spare=("median step",))
        for wait in waits:
            table.add_row(NameCell(wait.name), *_times(wait.time_ns, wait.usual_ns)[: len(columns)])
        console.print()
        console.print(table)
        if any(wait.name == Wait.UNTRACED.value for wait in waits):
            console.print(_untraced_text(recording))
    for side, title in _TITLES.items():
        changes = [change for change in comparison.changes(step) if change.side is side]
        if changes:
            console.print()
            console.print(_table(title, changes[:_MAX_ROWS]))
        if len(changes) > _MAX_ROWS:
            console.print(f"... {len(changes) - _MAX_ROWS} more names (--json shows all)")


def json_step(recording: Recording, times: StepTimes, numbers: Collection[int]) -> dict[str, Any]:
    """The same as JSON values; nothing for several steps or without others."""
    compared = _compared(recording, times, numbers)
    if compared is None:
        return {}
    comparison, step = compared
    return {
        "against_median": {
            "steps": comparison.times.counted,
            "median_ns": comparison.times.median_ns,
            "incomplete": not comparison.times.is_complete[step],
            "waits": [asdict(wait) for wait in comparison.waits(step)],
            "changes": [
                {**asdict(change), "side": change.side.name.lower(), "change_ns": change.change_ns}
                for change in comparison.changes(step)
            ],
        }
    }


def _compared(
    recording: Recording, times: StepTimes, numbers: Collection[int]
) -> tuple[StepComparison, int] | None:
    """The comparison and the index of the step, if it is one of several steps."""
    found = [index for index, step in enumerate(recording.steps) if step.number in numbers]
    if len(found) != 1 or len(recording.steps) < 2:
        return None
    return StepComparison(recording, times), found[0]


def _untraced_text(recording: Recording) -> str:
    """What it is, and what would name it."""
    said = "(untraced: the step's thread was in no event"
    if (recording.events.kind == EventKind.PYTHON).any():
        return f"{said})"
    return f"{said}; recording Python calls, with_stack=True, names what ran)"


def _table(title: str, changes: list[StepChange]) -> ReportTable:
    numbers = ("this step", "median step", "difference", "calls", "median calls")
    spare = ("median calls", "calls", "median step")
    table = ReportTable((title,), numbers, spare=spare, last=("this step",))
    for change in changes:
        times = _times(change.time_ns, change.usual_ns)
        table.add_row(NameCell(change.name), *times, f"{change.calls:,}", f"{change.usual_calls:,}")
    return table


def _times(time_ns: int, usual_ns: int) -> tuple[str, str, str]:
    change_ns = time_ns - usual_ns
    sign = "-" if change_ns < 0 else "+"
    return duration(time_ns), duration(usual_ns), f"{sign}{duration(abs(change_ns))}" if change_ns else "none"
