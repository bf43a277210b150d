"""Chrome traces read as strictly as anybody does, and the rules that viewers hold them to."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

Json: TypeAlias = dict[str, Any]


def read_strictly(path: Path) -> Json:
    """The trace, from valid UTF-8 and JSON without NaN, with times as exact decimals."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    trace: Json = json.loads(text, parse_float=Decimal, parse_constant=_refuse)
    return trace


def _refuse(constant: str) -> NoReturn:
    raise AssertionError(f"{constant} is not JSON")


def to_ns(microseconds: Decimal | int) -> int:
    """Nanoseconds of a time, which must have no more than three decimals."""
    nanoseconds = Decimal(microseconds) * 1000
    assert nanoseconds == int(nanoseconds)
    return int(nanoseconds)


def of_phase(trace: Json, phase: str, category: str | None = None) -> list[Json]:
    """The events of a phase, in the order of the file."""
    return [
        event
        for event in trace["traceEvents"]
        if event["ph"] == phase and (category is None or event.get("cat") == category)
    ]


def broken_rules(trace: Json) -> list[str]:
    """What a viewer would drop or draw wrongly, one line each."""
    return [
        *_negative_durations(trace),
        *_crossing_slices(trace),
        *_unpaired_async(trace),
        *_unbound_flows(trace),
    ]


def nesting(trace: Json) -> dict[int, int | None]:
    """Of each slice by its `Ev Idx` the one it lies in on its line."""
    parents: dict[int, int | None] = {}
    for slices in _by_line(trace).values():
        open_slices: list[tuple[int, int]] = []
        for start_ns, end_ns, event in slices:
            while open_slices and open_slices[-1][0] <= start_ns and open_slices[-1][0] < end_ns:
                open_slices.pop()
            index = event["args"]["Ev Idx"]
            parents[index] = open_slices[-1][1] if open_slices else None
            open_slices.append((end_ns, index))
    return parents


def _by_line(trace: Json) -> dict[tuple[Any, str], list[tuple[int, int, Json]]]:
    """Complete events by process and thread, by start and enclosing ones first, else as in the file."""
    lines: dict[tuple[Any, str], list[tuple[int, int, Json]]] = defaultdict(list)
    for event in of_phase(trace, "X"):
        start_ns = to_ns(event["ts"])
        lines[event["pid"], repr(event["tid"])].append((start_ns, start_ns + to_ns(event["dur"]), event))
    for slices in lines.values():
        slices.sort(key=lambda entry: (entry[0], -entry[1]))
    return lines


def _negative_durations(trace: Json) -> Iterator[str]:
    for event in of_phase(trace, "X"):
        if event["dur"] < 0:
            yield f"{event['name']!r} lasts {event['dur']}"


def _crossing_slices(trace: Json) -> Iterator[str]:
    for line, slices in _by_line(trace).items():
        open_until: list[int] = []
        for start_ns, end_ns, event in slices:
            while open_until and open_until[-1] <= start_ns:
                open_until.pop()
            if open_until and end_ns > open_until[-1]:
                yield f"{event['name']!r} crosses a slice of {line}"
            open_until.append(end_ns)


def _unpaired_async(trace: Json) -> Iterator[str]:
    open_events: dict[tuple[str, Any], int] = {}
    for event in trace["traceEvents"]:
        key = (event.get("cat", ""), event.get("id"))
        if event["ph"] == "b":
            if key in open_events:
                yield f"{event['name']!r} has the id of another"
            open_events[key] = to_ns(event["ts"])
        elif event["ph"] == "e" and (key not in open_events or open_events.pop(key) > to_ns(event["ts"])):
            yield f"{event['name']!r} ends without or before its begin"
    yield from (f"{key} never ends" for key in open_events)


def _unbound_flows(trace: Json) -> Iterator[str]:
    starts = {
        (line, start_ns) for line, slices in _by_line(trace).items() for start_ns, _end_ns, _event in slices
    }
    ends_seen: dict[tuple[str, Any], list[str]] = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] in "stf":
            ends_seen[event["cat"], event["id"]].append(event["ph"])
            if ((event["pid"], repr(event["tid"])), to_ns(event["ts"])) not in starts:
                yield f"flow {event['id']} of {event['cat']} begins or ends at no slice"
    yield from (f"flow {key} has ends {ends}" for key, ends in ends_seen.items() if ends != ["s", "f"])
