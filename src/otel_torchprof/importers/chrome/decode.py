"""Slices of text to typed events, some thousands at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from otel_torchprof.importers.chrome.repair import repair_event
from otel_torchprof.importers.chrome.schema import Arguments, Event, LooseEvent, Slice
from otel_torchprof.importers.report import ImportReport

_BATCH_EVENTS = 4096

# Floats stay text: times must not go through doubles.
_BATCH = msgspec.json.Decoder(list[Event], float_hook=str)
_ONE = msgspec.json.Decoder(Event, float_hook=str)
_LOOSE = msgspec.json.Decoder(LooseEvent, float_hook=str)
_ARGUMENTS = msgspec.json.Decoder(Arguments | None, float_hook=str)
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
    event = None if mended is None else _decode_mended(mended, problems)
    report.add_problems(dict.fromkeys(problems or ["malformed_event"], 1))
    if event is None or mended is None:
        report.add_problem("events_left_out")
        return None
    return event, mended


def _decode_mended(text: bytes, problems: list[str]) -> Event | None:
    try:
        return _ONE.decode(text)
    except _REFUSED:
        pass
    try:
        loose = _LOOSE.decode(text)
    except _REFUSED:
        return None
    problems[:] = [problem for problem in problems if problem != "control_character"]
    labels = {name: getattr(loose, name) for name in ("ph", "name", "cat", "pid", "tid", "id")}
    if any(value is not None and not isinstance(value, str | int | float) for value in labels.values()):
        problems.append("label_is_no_text")
    for name, value in labels.items():
        if value is not None and not isinstance(value, str):
            labels[name] = str(value)
    try:
        arguments = _ARGUMENTS.decode(loose.args) if memoryview(loose.args).nbytes else None
    except _REFUSED:
        problems.append("arguments_are_no_object")
        arguments = None
    return Event(**labels, ts=loose.ts, dur=loose.dur, id2=loose.id2, args=arguments)
