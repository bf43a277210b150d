"""Makes recordings of events from anywhere: for importers, and for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from otel_torchprof._native import core
from otel_torchprof.recording.kinds import EventFlags, EventKind, LinkType, StepFlags, StepPhase, TrackKind
from otel_torchprof.recording.recording import Recording
from otel_torchprof.recording.side_tables import (
    ARGUMENTS_DTYPE,
    COUNTER_DTYPE,
    DEVICE_DTYPE,
    MEMORY_DTYPE,
    TENSOR_ROLE_DTYPE,
)
from otel_torchprof.recording.steps import NO_SPAN, SpanContext

# kNoTrack of native/core/append_events.h.
NO_TRACK = (1 << 32) - 1
NO_EVENT_FLAGS = EventFlags(0)
NO_STEP_FLAGS = StepFlags(0)


class RecordingBuilder:
    """Takes tracks, events, steps and links in any order of time and sorts them at the end.

    Every `add_...` raises ValueError for what a recording cannot hold: an end before its start, a track or
    a name that was not added, a time beyond 2**62 ns.
    """

    def __init__(self) -> None:
        self._native = core.RecordingBuilder()

    @property
    def native(self) -> core.RecordingBuilder:
        """The native builder, for native code that takes one."""
        return self._native

    def add_name(self, name: str, overload: str = "") -> int:
        """Returns the id of a name, the same for the same name and overload."""
        return self._native.add_string(_utf8(name), _utf8(overload))

    def add_track(
        self,
        name: str = "",
        kind: TrackKind = TrackKind.THREAD,
        *,
        process_id: int = 0,
        thread_id: int = 0,
        torch_thread_id: int = 0,
        device: int = -1,
        context: int = -1,
    ) -> int:
        """Returns the index of a new track. Names over 256 bytes are cut."""
        return self._native.add_track(
            _utf8(name), kind, process_id, thread_id, torch_thread_id, device, context
        )

    def add_event(
        self,
        name: str,
        start_ns: int,
        end_ns: int,
        *,
        track: int = 0,
        overload: str = "",
        kind: EventKind = EventKind.OP,
        scope: int = 0,
        flags: EventFlags = NO_EVENT_FLAGS,
        sequence: int = -1,
        forward_thread: int = 0,
        end_track: int = 0,
        correlation: int = -1,
        error: str = "",
        inputs: bytes = b"",
    ) -> int:
        """Adds one event and returns its number, which `add_link` takes.

        Args:
            error: the type of the exception that ended it.
            inputs: encoded as docs/recording-format.md describes, without the length in front.
        """
        return self._native.add_event(
            start_ns,
            end_ns,
            self.add_name(name, overload),
            track,
            kind,
            scope,
            flags,
            sequence,
            forward_thread,
            end_track,
            correlation,
            self.add_name(error),
            inputs,
        )

    def add_events(
        self,
        name: npt.ArrayLike,
        start_ns: npt.ArrayLike,
        end_ns: npt.ArrayLike,
        track: npt.ArrayLike,
        *,
        kind: npt.ArrayLike | None = None,
        scope: npt.ArrayLike | None = None,
        flags: npt.ArrayLike | None = None,
        sequence: npt.ArrayLike | None = None,
        forward_thread: npt.ArrayLike | None = None,
        end_track: npt.ArrayLike | None = None,
        correlation: npt.ArrayLike | None = None,
        payload: npt.ArrayLike | None = None,
        error: npt.ArrayLike | None = None,
    ) -> None:
        """Adds many events from columns of one length; `name` and `error` hold ids from `add_name`.

        Events before the first one that a recording cannot hold are added. `payload` holds what
        `add_payload` returned, 0 = none.
        """
        self._native.add_events(
            np.ascontiguousarray(start_ns, dtype=np.int64),
            np.ascontiguousarray(end_ns, dtype=np.int64),
            np.ascontiguousarray(name, dtype=np.uint32),
            np.ascontiguousarray(track, dtype=np.uint32),
            None if kind is None else np.ascontiguousarray(kind, dtype=np.uint8),
            None if scope is None else np.ascontiguousarray(scope, dtype=np.uint8),
            None if flags is None else np.ascontiguousarray(flags, dtype=np.uint16),
            None if sequence is None else np.ascontiguousarray(sequence, dtype=np.int64),
            None if forward_thread is None else np.ascontiguousarray(forward_thread, dtype=np.uint32),
            None if end_track is None else np.ascontiguousarray(end_track, dtype=np.uint32),
            None if correlation is None else np.ascontiguousarray(correlation, dtype=np.int64),
            None if payload is None else np.ascontiguousarray(payload, dtype=np.uint64),
            None if error is None else np.ascontiguousarray(error, dtype=np.uint32),
        )

    def add_events_of(self, source: Recording, keep: npt.ArrayLike, tracks: Mapping[int, int]) -> None:
        """Adds events of another recording, with their inputs, links, device rows, counters and memory.

        Args:
            source: that recording.
            keep: for each of its events, whether to add it.
            tracks: this builder's track by the source's; nothing on a track without one is added.
        """
        track_of = np.full(len(source.tracks), NO_TRACK, dtype=np.uint32)
        for source_track, track in tracks.items():
            track_of[source_track] = track
        self._native.add_events_of(source.native, np.ascontiguousarray(keep, dtype=np.uint8), track_of)

    def add_payload(self, inputs: bytes) -> int:
        """Stores encoded inputs for any number of events and returns what their `payload` is then."""
        return self._native.add_payload(inputs)

    def add_devices(self, records: npt.NDArray[np.void]) -> None:
        """Adds rows of `DEVICE_DTYPE`; `event` is a number that `add_event` returned."""
        self._native.add_device_records(_bytes_of(records, DEVICE_DTYPE))

    def add_counters(self, records: npt.NDArray[np.void]) -> None:
        """Adds rows of `COUNTER_DTYPE`; `name` comes from `add_name`."""
        self._native.add_counter_records(_bytes_of(records, COUNTER_DTYPE))

    def add_memory(self, records: npt.NDArray[np.void]) -> None:
        """Adds rows of `MEMORY_DTYPE`."""
        self._native.add_memory_records(_bytes_of(records, MEMORY_DTYPE))

    def add_arguments(self, records: npt.NDArray[np.void]) -> None:
        """Adds rows of `ARGUMENTS_DTYPE`; `text` comes from `add_name`, of JSON objects up to 256 KiB."""
        self._native.add_arguments_records(_bytes_of(records, ARGUMENTS_DTYPE))

    def add_tensor_roles(self, records: npt.NDArray[np.void]) -> None:
        """Adds rows of `TENSOR_ROLE_DTYPE`; `name` comes from `add_name`."""
        self._native.add_tensor_role_records(_bytes_of(records, TENSOR_ROLE_DTYPE))

    def add_step(
        self,
        start_ns: int,
        end_ns: int,
        number: int = -1,
        *,
        track: int = 0,
        phase: StepPhase = StepPhase.UNKNOWN,
        flags: StepFlags = NO_STEP_FLAGS,
        context: SpanContext = NO_SPAN,
        context_trace_flags: int = 0,
        links: Sequence[SpanContext] = (),
    ) -> None:
        """Adds a step; see `Step` for what its fields mean."""
        self._native.add_step(
            start_ns,
            end_ns,
            number,
            track,
            phase,
            flags,
            (context.trace_id, context.span_id),
            context_trace_flags,
            [(link.trace_id, link.span_id) for link in links],
        )

    def add_link(self, from_event: int, to_event: int, link_type: LinkType) -> None:
        """Links two events by the numbers that `add_event` returned."""
        self._native.add_link(from_event, to_event, link_type)

    def add_links(self, from_event: npt.ArrayLike, to_event: npt.ArrayLike, link_type: LinkType) -> None:
        """Adds many links of one type."""
        self._native.add_links(
            np.ascontiguousarray(from_event, dtype=np.uint64),
            np.ascontiguousarray(to_event, dtype=np.uint64),
            link_type,
        )

    def add_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Adds metadata; keys that were there already get the new values.

        Raises:
            TypeError, ValueError: it cannot be written as JSON.
        """
        self._native.add_metadata(json.dumps(dict(metadata), allow_nan=False).encode("ascii"))

    def add_drops(self, reason: str, count: int) -> None:
        """Counts events that were not recorded; reasons are those of `Recording.drops`."""
        self._native.add_drops(reason, count)

    def set_process(self, process_id: int, process_instance: int) -> None:
        """Names the process that recorded."""
        self._native.set_process(process_id, process_instance)

    def set_this_process(self) -> None:
        """Says that this process recorded."""
        self._native.set_this_process()

    def set_stopped(self, stopped: bool) -> None:
        """False for a recording that is not complete."""
        self._native.set_stopped(stopped)

    def cover(self, start_ns: int, end_ns: int) -> None:
        """Widens the recording beyond its events and steps."""
        self._native.cover(start_ns, end_ns)

    def finish(self) -> Recording:
        """Returns the recording and leaves the builder empty."""
        return Recording(self._native.finish())

    def finish_mended(self, *, rounding_ns: int, stream_ns: int) -> tuple[Recording, OverrunCounts]:
        """As `finish`, for events whose times may be wrong.

        Args:
            rounding_ns: a slice that outlasts the one it began in by no more than this is cut to fit.
            stream_ns: work on a stream that lasts longer than this into the work after it is cut there.
        """
        native, counts = self._native.finish_mended(rounding_ns, stream_ns)
        return Recording(native), OverrunCounts(*counts)


class OverrunCounts(NamedTuple):
    """How many slices outlasted another."""

    rounded: int  # cut to the end of what they lie in
    overflowed: int  # cut to the start of what follows on their stream
    crossing: int  # left as they are


def _bytes_of(records: npt.NDArray[np.void], dtype: np.dtype[np.void]) -> npt.NDArray[np.uint8]:
    if records.dtype != dtype:
        raise ValueError("records of another table")
    return np.ascontiguousarray(records).view(np.uint8)


def _utf8(name: str) -> bytes:
    # Lone surrogates, as broken JSON has them, are no reason to lose an event.
    return name.encode("utf-8", "surrogatepass")
