"""The Python functions that an event ran in."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_torchprof.recording.kinds import EventKind

if TYPE_CHECKING:
    from otel_torchprof.recording.recording import Recording


class StackFrame(NamedTuple):
    """A Python function on a stack; `line` is where its definition begins. Not known: no file, line 0."""

    function: str
    file: str
    line: int


def stack_of(recording: Recording, row: int) -> tuple[StackFrame, ...]:
    """See `Recording.stack_of`."""
    kinds = recording.events.kind
    names = recording.events.name
    rows = (row, *recording.tree().ancestors(row))
    return tuple(_frame(recording, int(names[frame])) for frame in rows if kinds[frame] == EventKind.PYTHON)


def _frame(recording: Recording, name_id: int) -> StackFrame:
    file, _colon, line = recording.overload_name(name_id).rpartition(":")
    if not line.isascii() or not line.isdigit():
        file, line = "", "0"
    return StackFrame(recording.name(name_id), file, int(line))
