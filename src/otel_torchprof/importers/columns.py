"""Columns of events while they are being read: compact arrays, one append a field."""

from __future__ import annotations

from array import array
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from otel_torchprof.recording import EventKind, RecordingBuilder

# Columns and what stands in them where nothing is known.
_BLANKS = {
    "start_ns": 0,
    "end_ns": 0,
    "name": 0,
    "track": 0,
    "kind": 0,
    "scope": 0,
    "flags": 0,
    "sequence": -1,
    "forward_thread": 0,
    "end_track": 0,
    "correlation": -1,
    "payload": 0,
    "error": 0,
}


class EventDraft:
    """The events of a recording in the order of the file.

    `add` returns the number of the event. Its names and tracks are those of the builder it ends up in.
    """

    def __init__(self) -> None:
        self.start_ns = array("q")
        self.end_ns = array("q")
        self.name = array("I")
        self.track = array("I")
        self.kind = array("B")
        self.scope = array("B")
        self.flags = array("H")
        self.sequence = array("q")
        self.forward_thread = array("I")
        self.end_track = array("I")
        self.correlation = array("q")
        self.payload = array("Q")
        self.error = array("I")

    def __len__(self) -> int:
        return len(self.start_ns)

    def add(
        self,
        start_ns: int,
        end_ns: int,
        name: int,
        track: int,
        kind: EventKind,
        scope: int = 0,
        flags: int = 0,
        sequence: int = -1,
        forward_thread: int = 0,
        end_track: int = 0,
        correlation: int = -1,
        payload: int = 0,
        error: int = 0,
    ) -> int:
        """Adds one event; see `RecordingBuilder.add_event`."""
        self.start_ns.append(start_ns)
        self.end_ns.append(end_ns)
        self.name.append(name)
        self.track.append(track)
        self.kind.append(kind)
        self.scope.append(scope)
        self.flags.append(flags)
        self.sequence.append(sequence)
        self.forward_thread.append(forward_thread)
        self.end_track.append(end_track)
        self.correlation.append(correlation)
        self.payload.append(payload)
        self.error.append(error)
        return len(self.start_ns) - 1

    def add_block(self, columns: Mapping[str, npt.NDArray[np.int64]]) -> int:
        """Adds many events from columns of one length and returns the number of the first.

        `start_ns`, `end_ns`, `name` and `track` must be there; others are blank where they are not.
        """
        first = len(self.start_ns)
        count = len(columns["start_ns"])
        for name, blank in _BLANKS.items():
            values: array[int] = getattr(self, name)
            column = columns.get(name)
            if column is None:
                column = np.full(count, blank)
            values.frombytes(np.ascontiguousarray(column, dtype=values.typecode).tobytes())
        return first

    def column(self, name: str) -> npt.NDArray[np.int64]:
        """A column as a numpy array over the same memory: no event may be added while it lives."""
        values: array[int] = getattr(self, name)
        return np.frombuffer(values, dtype=values.typecode) if values else np.empty(0, dtype=values.typecode)

    def add_to(self, builder: RecordingBuilder) -> None:
        """Hands all events to the builder, whose event numbers are then those of the draft."""
        builder.add_events(
            self.column("name"),
            self.column("start_ns"),
            self.column("end_ns"),
            self.column("track"),
            kind=self.column("kind"),
            scope=self.column("scope"),
            flags=self.column("flags"),
            sequence=self.column("sequence"),
            forward_thread=self.column("forward_thread"),
            end_track=self.column("end_track"),
            correlation=self.column("correlation"),
            payload=self.column("payload"),
            error=self.column("error"),
        )
