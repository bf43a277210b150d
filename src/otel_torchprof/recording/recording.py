"""The class `Recording`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from otel_torchprof._native import core
from otel_torchprof.errors import RecordingFormatError
from otel_torchprof.recording.columns import EventColumns, LinkColumns
from otel_torchprof.recording.contexts import EventContext
from otel_torchprof.recording.event_memory import EventMemory
from otel_torchprof.recording.inputs import InputValue, typed_inputs
from otel_torchprof.recording.kinds import ClockSource, StepFlags, StepPhase, TrackKind
from otel_torchprof.recording.metadata import merge_metadata
from otel_torchprof.recording.side_tables import (
    ARGUMENTS_DTYPE,
    COUNTER_DTYPE,
    DEVICE_DTYPE,
    MEMORY_DTYPE,
    TENSOR_DTYPE,
    TENSOR_ROLE_DTYPE,
)
from otel_torchprof.recording.stack import StackFrame, stack_of
from otel_torchprof.recording.steps import SpanContext, Step
from otel_torchprof.recording.tracks import Track
from otel_torchprof.recording.tree import Tree


class Recording:
    """Everything that was recorded, in columns: one row an event, all times unix ns. Never changes.

    Events are named by their row: `recording.events.start_ns[row]`, `recording.event_name(row)`.
    """

    def __init__(self, native: core.Recording) -> None:
        self._native = native
        self._damaged_inputs: set[int] = set()

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Recording:
        """Reads a `.tprof` file, also one that a process is still writing or was killed while writing.

        A damaged file is read as far as it goes; `problems` says what was wrong with it.

        Raises:
            OSError: the file cannot be read.
            RecordingFormatError: it is no recording, or nothing of it can be read.
        """
        try:
            return cls(core.open_recording(path))
        except OSError as error:
            raise _with_filename(error, os.fspath(path)) from None
        except RuntimeError as error:
            raise RecordingFormatError(str(error)) from None

    @classmethod
    def empty(cls) -> Recording:
        """A recording without events."""
        return cls(core.RecordingBuilder().finish())

    @property
    def native(self) -> core.Recording:
        """The native recording, for native code that takes one."""
        return self._native

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a `.tprof` file (mode 0600); whatever had that name is replaced once it is complete.

        `problems` are not part of the file.

        Raises:
            OSError: writing failed; nothing was left behind.
            ValueError: the recording is larger than a file can be.
        """
        try:
            self._native.save(path)
        except OSError as error:
            raise _with_filename(error, os.fspath(path)) from None

    def redacted(self, replace: Callable[[str], str]) -> Recording:
        """A copy with what `replace` makes of the names of user scopes and of strings among inputs.

        It is called once for each distinct text, must return valid Unicode, and what it raises is passed on.
        The copy has no inputs where they are damaged.
        """
        return Recording(self._native.redacted(replace))

    def __len__(self) -> int:
        """The number of events."""
        return len(self._native)

    def __repr__(self) -> str:
        return f"<Recording of {len(self)} events on {len(self.tracks)} tracks, {len(self.steps)} steps>"

    @cached_property
    def events(self) -> EventColumns:
        """The columns."""
        return EventColumns(self._native)

    @cached_property
    def links(self) -> LinkColumns:
        """Links between events."""
        return LinkColumns(self._native)

    @cached_property
    def devices(self) -> npt.NDArray[np.void]:
        """What only kernels, copies, synchronizations and their calls have, by row: see `DEVICE_DTYPE`."""
        return self._native.device_records.view(DEVICE_DTYPE)

    @cached_property
    def arguments(self) -> npt.NDArray[np.void]:
        """What traces said of events that no column holds, by row: see `ARGUMENTS_DTYPE`."""
        return self._native.arguments_records.view(ARGUMENTS_DTYPE)

    def arguments_of(self, row: int) -> dict[str, Any]:
        """What a trace said of an event that no column holds: of imported ones, and of few of those."""
        records = self.arguments
        first, end = np.searchsorted(records["event"], [row, row + 1])
        found: dict[str, Any] = {}
        for record in records[first:end]:
            found.update(json.loads(self._native.string(int(record["text"]))))
        return found

    @cached_property
    def counters(self) -> npt.NDArray[np.void]:
        """Readings of counters, by time: see `COUNTER_DTYPE`."""
        return self._native.counter_records.view(COUNTER_DTYPE)

    @cached_property
    def memory(self) -> npt.NDArray[np.void]:
        """Allocations and frees, by time: see `MEMORY_DTYPE`."""
        return self._native.memory_records.view(MEMORY_DTYPE)

    def memory_by_event(self, *, on_devices: bool = False) -> EventMemory:
        """What each event allocated and freed, on the CPU or on all devices together."""
        return EventMemory(*self._native.memory_by_event(self.tree().native, on_devices))

    @cached_property
    def tensors(self) -> npt.NDArray[np.void]:
        """Tensors that ops were given, by row and place among the inputs: see `TENSOR_DTYPE`.

        Empty unless inputs and memory were recorded; without what inputs are damaged.
        """
        records, _damaged_inputs = self._native.tensor_records()
        return records.view(TENSOR_DTYPE)

    @cached_property
    def tensor_roles(self) -> npt.NDArray[np.void]:
        """Which tensors were parameters, gradients, optimizer state or buffers, by time of noting it.

        See `TENSOR_ROLE_DTYPE`; empty unless memory was recorded.
        """
        return self._native.tensor_role_records.view(TENSOR_ROLE_DTYPE)

    @cached_property
    def tracks(self) -> tuple[Track, ...]:
        """The threads and streams that events lie on."""
        return tuple(Track(name, TrackKind(kind), *rest) for name, kind, *rest in self._native.tracks)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The steps, in order of start."""
        return tuple(_step(fields) for fields in self._native.steps)

    @cached_property
    def contexts(self) -> tuple[EventContext, ...]:
        """The spans of other traces that events belong under, by row; empty where steps were recorded."""
        return tuple(
            EventContext(
                row, SpanContext(*context), flags, is_root, tuple(SpanContext(*link) for link in links)
            )
            for row, context, flags, is_root, links in self._native.contexts
        )

    def name(self, name_id: int) -> str:
        """The name of a name id; ids count from 0, which is the empty name.

        Bytes that are not UTF-8 become U+FFFD.
        """
        return self._native.string(name_id)

    def overload_name(self, name_id: int) -> str:
        """The overload name that goes with a name id, as `Tensor` in `aten::add.Tensor`; empty when none."""
        return self._native.overload(name_id)

    @property
    def name_count(self) -> int:
        """The number of name ids."""
        return self._native.string_count

    def event_name(self, row: int) -> str:
        """The name of an event."""
        return self._native.string(int(self.events.name[row]))

    def inputs(self, row: int) -> list[InputValue] | None:
        """The recorded inputs of an op, in order; None when none were recorded or they are damaged."""
        try:
            decoded = self._native.inputs(row)
        except ValueError:
            self._damaged_inputs.add(row)
            return None
        return None if decoded is None else typed_inputs(decoded)

    def input_shape_ids(self) -> npt.NDArray[np.uint32]:
        """A number for each event, equal where the inputs have tensors of equal sizes in equal places.

        0 stands for events without recorded inputs.
        """
        by_row, _example_row, _damaged = self._native.input_shape_ids()
        return by_row

    @cached_property
    def _tree(self) -> Tree:
        return Tree(self._native.tree())

    def tree(self) -> Tree:
        """Parents and self times; computed once."""
        return self._tree

    def stack_of(self, row: int) -> tuple[StackFrame, ...]:
        """The Python functions that an event ran in, innermost first; a function's own begins with itself.

        Empty unless recorded with `with_stack`.
        """
        return stack_of(self, row)

    @cached_property
    def _metadata(self) -> tuple[dict[str, Any], int]:
        return merge_metadata(self._native.metadata_json)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What is known of the run: its id, rank, versions."""
        return MappingProxyType(self._metadata[0])

    @property
    def drops(self) -> Mapping[str, int]:
        """How many events were not recorded, by reason."""
        return self._native.drops

    @property
    def problems(self) -> Mapping[str, int]:
        """What was wrong with the file, by name and how often; empty for a sound one."""
        problems = self._native.problems
        if self._metadata[1]:
            problems["unreadable_metadata"] = self._metadata[1]
        if self._damaged_inputs:
            problems["damaged_inputs"] = len(self._damaged_inputs)
        return problems

    @property
    def start_ns(self) -> int:
        """When recording began, unix ns."""
        return self._native.first_ns

    @property
    def end_ns(self) -> int:
        """When recording ended, or the last time known of a recording that never was stopped; unix ns."""
        return self._native.last_ns

    @property
    def clock_source(self) -> ClockSource:
        """The clock that was read."""
        return ClockSource(self._native.clock_source)

    @property
    def process_id(self) -> int:
        """Of the process that recorded, 0 = not known."""
        return self._native.process_id

    @property
    def process_instance(self) -> int:
        """A random number that no other start of a process has, 0 = not known."""
        return self._native.process_instance

    @property
    def stopped(self) -> bool:
        """False for a recording that is not complete: its process is still recording, or was killed."""
        return self._native.stopped


def _step(fields: core.StepFields) -> Step:
    start_ns, end_ns, number, track, phase, flags, context, context_trace_flags, links = fields
    return Step(
        start_ns,
        end_ns,
        number,
        track,
        StepPhase(phase),
        StepFlags(flags),
        SpanContext(*context),
        context_trace_flags,
        tuple(SpanContext(*link) for link in links),
    )


def _with_filename(error: OSError, file: str) -> OSError:
    if error.errno is None:
        return error
    return OSError(error.errno, os.strerror(error.errno), file)
