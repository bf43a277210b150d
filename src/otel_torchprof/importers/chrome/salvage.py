"""Finds the events in text that is no sound JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from otel_torchprof.importers.chrome.schema import Slice
from otel_torchprof.importers.report import ImportReport

_BEGINS_ARRAY = re.compile(rb"\s*\[")
_ARRAY_OF_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
# Strings and brackets. A quote that nothing structural follows is part of its string, as in names that
# were not escaped; a string ends at a line break at the latest, so that a bad one spoils its line only.
_TOKEN = re.compile(
    rb'"[^"\\\n]*(?:(?:\\[^\n]|"(?!\s{0,64}(?:[,:}\]]|$)))[^"\\\n]*)*(?:"|\\?$|\\?(?=\n))|[{}\[\]]'
)
_OPENING = frozenset(b"{[")
_QUOTE = ord('"')
_MAX_HEADER_BYTES = 8 << 20


@dataclass
class TraceText:
    """The events of a trace as text, and everything beside `traceEvents`."""

    events: Sequence[Slice]
    header: dict[str, Any] = field(default_factory=dict)


def salvage(content: bytearray, report: ImportReport) -> TraceText:
    """All complete objects of the array of events, wherever the text around them breaks off: at cut-off ends,
    trailing commas, NaN, or without an array around them."""
    report.add_problem("malformed_json")
    start = _ARRAY_OF_EVENTS.search(content)
    begin = start.end() if start else 0
    # An array, or objects one after the other.
    outer = 0 if start or not _BEGINS_ARRAY.match(content) else 1
    view = memoryview(content).toreadonly()
    events: list[Slice] = []
    depth = 0
    event_begin = begin
    end = len(content)
    for token in _TOKEN.finditer(content, begin):
        position = token.start()
        first = content[position]
        if first == _QUOTE:
            continue
        if first in _OPENING:
            if depth == outer:
                event_begin = position
            depth += 1
            continue
        depth -= 1
        if depth == outer:
            events.append(view[event_begin : token.end()])
        elif depth < outer:
            end = token.end()
            break
    if depth > outer:
        report.add_problem("last_event_cut_off")
    if depth >= outer and (start or outer):
        report.add_problem("array_not_closed")
    if not events:
        report.add_problem("no_trace_events")
    header = _salvaged_header(content[: start.start()], content[end:]) if start else {}
    return TraceText(events, header)


def _salvaged_header(before: bytearray, after: bytearray) -> dict[str, Any]:
    """What stands before and after the array of events, as far as either is sound JSON by itself."""
    header: dict[str, Any] = {}
    for text in (before[:_MAX_HEADER_BYTES] + b'"":0}', b'{"":0' + after[:_MAX_HEADER_BYTES]):
        try:
            members = json.loads(text.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue
        if isinstance(members, dict):
            header.update(members)
    header.pop("", None)
    return header
