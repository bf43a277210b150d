"""`otel-torchprof info`: what a recording is and what is in it."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from otel_torchprof.analysis.steps import Lack, StepTimes
from otel_torchprof.cli.input import add_command
from otel_torchprof.cli.text import NameCell, OutputConsole, cell, duration, shortened
from otel_torchprof.importers import load
from otel_torchprof.recording import EventKind, StepFlags
from otel_torchprof.recording.unix_time import utc_text

if TYPE_CHECKING:
    from otel_torchprof.cli.text import Commands
    from otel_torchprof.importers import ImportReport
    from otel_torchprof.recording import Recording

_MAX_ROWS = 20  # of a table on a terminal; --json has them all
_MAX_VALUE = 300  # characters of a fact, such as the ranks of a group as a list; --json has it whole


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "info",
        "what a recording is and what is in it",
        "Shows where a recording comes from, its threads and steps, and what could not be recorded or read.",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    facts = describe(*load(options.input))
    if options.json:
        print(json.dumps(facts, indent=2))
    else:
        _print_facts(OutputConsole(), facts)
    return 0


def describe(recording: Recording, imported: ImportReport) -> dict[str, Any]:
    """The facts about a recording and how it was read as JSON values; times are unix ns."""
    return {
        "format": imported.format,
        "events": len(recording),
        "events_by_kind": _count_kinds(recording),
        "start_ns": recording.start_ns,
        "end_ns": recording.end_ns,
        "stopped": recording.stopped,
        "clock": recording.clock_source.name.lower(),
        "process_id": recording.process_id,
        "metadata": dict(recording.metadata),
        "tracks": _tracks(recording),
        "steps": describe_steps(recording, StepTimes.of(recording, imported.problems)),
        "drops": dict(recording.drops),
        "problems": dict(imported.problems),
        "warnings": imported.warnings,
        "notes": imported.remarks,
    }


def describe_steps(recording: Recording, times: StepTimes) -> list[dict[str, Any]]:
    """The steps as JSON values; times are unix ns."""
    return [
        {
            "number": step.number,
            "phase": step.phase.name.lower(),
            "start_ns": step.start_ns,
            "end_ns": step.end_ns,
            "partial": StepFlags.PARTIAL in step.flags or lack is Lack.PARTIAL,
            "unfinished": StepFlags.UNFINISHED in step.flags,
            "incomplete": lack is Lack.INCOMPLETE,
        }
        for step, lack in zip(recording.steps, times.lacks, strict=True)
    ]


def step_flags(step: Mapping[str, Any]) -> str:
    """What there is to say of a step, a value of `describe_steps`; mostly nothing."""
    return ", ".join(flag for flag in ("partial", "unfinished", "incomplete") if step[flag])


def _count_kinds(recording: Recording) -> dict[str, int]:
    counts = np.bincount(recording.events.kind)
    return {EventKind(kind).name.lower(): int(count) for kind, count in enumerate(counts) if count}


def _tracks(recording: Recording) -> list[dict[str, Any]]:
    counts = np.bincount(recording.events.track, minlength=len(recording.tracks))
    return [
        {
            "name": track.name,
            "kind": track.kind.name.lower(),
            "id": track.thread_id,
            "process_id": track.process_id,
            "events": int(count),
        }
        for track, count in zip(recording.tracks, counts, strict=True)
    ]


def _print_facts(console: OutputConsole, facts: Mapping[str, Any]) -> None:
    summary = {
        "format": facts["format"],
        "events": f"{facts['events']:,}" + _listed(facts["events_by_kind"]),
        "began": utc_text(facts["start_ns"]),
        "lasted": duration(facts["end_ns"] - facts["start_ns"]),
        "state": "stopped" if facts["stopped"] else "never stopped: complete up to the last committed event",
        "clock": facts["clock"],
        "process": facts["process_id"],
        **{name: _plain(value) for name, value in _short_metadata(facts["metadata"])},
        "dropped": _counts(facts["drops"]),
    }
    grid = Table.grid(padding=(0, 2))
    for name, value in summary.items():
        grid.add_row(NameCell(name), cell(shortened(str(value), _MAX_VALUE)))
    for name, lines in (("problems", facts["warnings"] or ["none"]), ("notes", facts["notes"])):
        for index, line in enumerate(lines):
            grid.add_row(NameCell("" if index else name), cell(line))
    console.print(grid)
    _print_tracks(console, facts["tracks"])
    _print_table(
        console,
        "steps",
        len(facts["steps"]),
        [
            (step["number"], step["phase"], duration(step["end_ns"] - step["start_ns"]), step_flags(step))
            for step in facts["steps"]
        ],
        ("number", "phase", "lasted", ""),
    )


def _print_tracks(console: OutputConsole, tracks: Sequence[Mapping[str, Any]]) -> None:
    """Those with the most events first; one line for all of one name, as the traces of a service are."""
    events: dict[tuple[Any, ...], list[int]] = {}
    for track in tracks:
        key = (track["name"], track["kind"], track["id"], track["process_id"])
        events.setdefault(key, []).append(track["events"])
    has_processes = len({track["process_id"] for track in tracks}) > 1
    rows: list[tuple[object, ...]] = []
    for (name, kind, number, process), counts in sorted(events.items(), key=lambda item: -sum(item[1])):
        more = f" ({len(counts):,} tracks)" if len(counts) > 1 else ""
        whose = (process,) if has_processes else ()
        rows.append((f"{name}{more}", kind, number, *whose, f"{sum(counts):,}"))
    headings = ("name", "kind", "id", *(("process",) if has_processes else ()), "events")
    _print_table(console, "tracks", len(tracks), rows, headings)


def _short_metadata(metadata: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Of modules, which come in parts of many each, how many are described."""
    parts = {name: value for name, value in metadata.items() if re.fullmatch(r"modules\.\d+", name)}
    yield from ((name, value) for name, value in metadata.items() if name not in parts)
    if parts:
        described = sum(len(part) for part in parts.values() if isinstance(part, list))
        yield "modules", f"{described} described: see the report"


def _print_table(
    console: OutputConsole,
    title: str,
    count: int,
    rows: Sequence[tuple[object, ...]],
    headings: Sequence[str],
) -> None:
    console.print()
    if not rows:
        console.print(f"no {title}")
        return
    table = Table(
        title=f"{count:,} {title if count != 1 else title.removesuffix('s')}",
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    for heading in headings:
        table.add_column(heading, justify="right" if heading in {"events", "lasted"} else "left")
    for row in rows[:_MAX_ROWS]:
        table.add_row(*map(NameCell, row))
    console.print(table)
    if len(rows) > _MAX_ROWS:
        console.print(f"... {len(rows) - _MAX_ROWS} more (--json shows all)")


def _plain(value: object) -> object:
    return value if isinstance(value, str | int | float) else json.dumps(value)


def _listed(counts: Mapping[str, int]) -> str:
    return f" ({_counts(counts)})" if counts else ""


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items()) or "none"
