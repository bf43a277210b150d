"""Reads the text of a trace into blocks of events: piece by piece, strictly; by search where that fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from otel_torchprof._native import core
from otel_torchprof.importers.chrome.categories import CATEGORY_CLASSES
from otel_torchprof.importers.chrome.metadata import HEADER_KEYS
from otel_torchprof.importers.chrome.salvage import salvage
from otel_torchprof.importers.input_file import InputFile
from otel_torchprof.importers.report import ImportReport

_BOM = b"\xef\xbb\xbf"
# Of text, and of events found by search, in a block.
_BLOCK_BYTES = 8 << 20
_BLOCK_EVENTS = 8192


@dataclass
class ScannedTrace:
    """The events of a trace and everything kept of what stands beside `traceEvents`."""

    scanner: core.TraceScanner
    blocks: list[core.TraceBlock]
    header: dict[str, Any]
    is_declared: bool
    """There are `traceEvents`, if only by name: an array alone may be anything."""

    def take_blocks(self) -> Iterator[core.TraceBlock]:
        """The blocks in the order of the file; each is let go of when the next one is asked for."""
        self.blocks.reverse()
        while self.blocks:
            yield self.blocks.pop()


def begins_array(file: InputFile) -> bool:
    """Whether the document is an array."""
    return _first_character(file) == b"["


def begins_document(file: InputFile) -> bool:
    """Whether the document is an array or an object."""
    return _first_character(file) in {b"[", b"{"}


def scan_trace(file: InputFile, report: ImportReport) -> ScannedTrace:
    """Reads all events. The text is read a second time where it is no sound JSON."""
    scanner = _new_scanner()
    blocks = _blocks_of_pieces(scanner, file.pieces())
    if scanner.state == core.TraceState.WHOLE:
        if not scanner.has_events and not begins_array(file):
            report.add_problem("no_trace_events")
    elif scanner.state == core.TraceState.READING and scanner.is_among_events:
        report.add_problem("malformed_json")
        report.add_problem("array_not_closed")
        report.add_problem("last_event_cut_off", int(scanner.is_in_event))
        report.add_problem("no_trace_events", int(not scanner.has_events))
    else:
        blocks.clear()
        return _search(file, report)
    header = {name: _plain(value) for name, value in scanner.header.items()}
    return ScannedTrace(scanner, blocks, header, scanner.arrays_begun > 0 and not begins_array(file))


def _first_character(file: InputFile) -> bytes:
    return file.head.removeprefix(_BOM).lstrip()[:1]


def _new_scanner() -> core.TraceScanner:
    return core.TraceScanner(
        {text: int(category) for text, category in CATEGORY_CLASSES.items()}, sorted(HEADER_KEYS)
    )


def _blocks_of_pieces(scanner: core.TraceScanner, pieces: Iterable[bytes]) -> list[core.TraceBlock]:
    blocks: list[core.TraceBlock] = []
    arrays_begun = size_bytes = 0
    for piece in pieces:
        scanner.feed(piece)
        if scanner.state == core.TraceState.MALFORMED:
            return []
        if scanner.arrays_begun != arrays_begun:
            # Of members that are there twice the last counts.
            arrays_begun = scanner.arrays_begun
            blocks.clear()
        size_bytes += len(piece)
        if size_bytes >= _BLOCK_BYTES:
            blocks.append(scanner.take())
            size_bytes = 0
    scanner.finish()
    if scanner.arrays_begun != arrays_begun:
        blocks.clear()
    blocks.append(scanner.take())
    return blocks


def _search(file: InputFile, report: ImportReport) -> ScannedTrace:
    content = file.read()
    if content.startswith(_BOM):
        del content[: len(_BOM)]
    is_declared = b'"traceEvents"' in content
    found = salvage(content, report)
    scanner = _new_scanner()
    blocks: list[core.TraceBlock] = []
    for number, text in enumerate(found.events, 1):
        scanner.add_event(bytes(text))
        if number % _BLOCK_EVENTS == 0:
            blocks.append(scanner.take())
    blocks.append(scanner.take())
    return ScannedTrace(scanner, blocks, found.header, is_declared)


def _plain(value: bytes) -> Any:
    try:
        return msgspec.json.decode(value)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
