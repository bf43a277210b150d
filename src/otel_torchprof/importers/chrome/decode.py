"""Slices of text to typed events, some thousands at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from otel_torchprof.importers.chrome.repair import repair_event
from otel_torchprof.importers.chrome.schema import Event, EventWithoutArguments, Slice
from otel_torchprof.importers.report import ImportReport

_BATCH_EVENTS = 4096

# Floats stay text: times must not go through doubles.
_BATCH = msgspec.json.Decoder(list[Event], float_hook=str)
_ONE = msgspec.json.Decoder(Event, float_hook=str)
_WITHOUT_ARGUMENTS = msgspec.json.Decoder(EventWithoutArguments, float_hook=str)
# UnicodeDecodeError and integers of thousands of digits are ValueErrors.
_REFUSED = (msgspec.MsgspecError, RecursionError, ValueError)


def decode_batches(
    slices: Sequence[Slice], report: ImportReport
) -> Iterator[tuple[Sequence[Event], Sequence[Slice]]]:
    """Decodes all events, and gives the text of each with it.

    Events that cannot be mended are left out and counted.
    """
    for begin in range(0, len(slices), _BATCH_EVENTS):
        batch = slices[begin : begin + _BATCH_EVENTS]
        try:
            yield _BATCH.decode(b"[" + b",".join(batch) + b"]"), batch
        except _REFUSED:
            decoded = [pair for text in batch if (pair := _decode_one(text, report))]
            yield [event for event, _text in decoded], [text for _event, text in decoded]


def _decode_one(text: Slice, report: ImportReport) -> tuple[Event, Slice] | None:
    try:
        return _ONE.decode(text), text
    except _REFUSED:
        pass
    mended, problems = repair_event(bytes(text))
    if mended is not None:
        try:
            event = _ONE.decode(mended)
            report.add_problems(dict.fromkeys(problems, 1))
            return event, mended
        except _REFUSED:
            pass
        try:
            fields = _WITHOUT_ARGUMENTS.decode(mended)
            report.add_problem("arguments_are_no_object")
            return Event(*(getattr(fields, name) for name in fields.__struct_fields__)), mended
        except _REFUSED:
            problems = ["malformed_event"]
    report.add_problems(dict.fromkeys(problems, 1))
    report.add_problem("events_left_out")
    return None
