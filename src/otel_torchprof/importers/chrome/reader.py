"""Turns decoded trace events into the rows of a recording."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from otel_torchprof.importers.chrome.categories import USER_SCOPE, Category, category_of, kind_by_name
from otel_torchprof.importers.chrome.devices import DeviceRows
from otel_torchprof.importers.chrome.inputs import encode_inputs
from otel_torchprof.importers.chrome.links import (
    FlowEnd,
    Flows,
    add_launch_links,
    add_other_links,
    infer_torch_thread_ids,
)
from otel_torchprof.importers.chrome.schema import Arguments, Event, Slice, numeric_arguments
from otel_torchprof.importers.chrome.scopes import Mark, ScopePairer
from otel_torchprof.importers.chrome.times import MAX_TIME_NS, microseconds_to_ns
from otel_torchprof.importers.chrome.tracks import TrackTable
from otel_torchprof.importers.columns import EventDraft
from otel_torchprof.importers.numbers import to_int
from otel_torchprof.importers.report import ImportReport
from otel_torchprof.recording import (
    COUNTER_DTYPE,
    MEMORY_DTYPE,
    EventFlags,
    EventKind,
    Recording,
    RecordingBuilder,
    StepFlags,
)

# A child may outlast its parent by this much where times were cut to microseconds.
_ROUNDING_NS = 1_000
# Work on a stream that lasts this much longer than until the next one begins has a wrong end.
_STREAM_OVERFLOW_NS = 1_000_000_000
# Times this far from 0 are counted from something real: a 0 among them is no time.
_ABSOLUTE_NS = 1_000_000_000_000

_STEP_NAME = re.compile(r"ProfilerStep#(\d{1,18})")
_CALLS = frozenset({EventKind.RUNTIME, EventKind.DRIVER})
_UINT32 = (1 << 32) - 1
_INT32 = (1 << 31) - 1
_UINT64 = (1 << 64) - 1


class TraceReader:
    """Takes the events of a trace in the order of the file.

    Args:
        report: where problems are counted.
        base_ns: what times count from.
        max_name_characters: longer names are cut.
    """

    def __init__(self, report: ImportReport, base_ns: int, max_name_characters: int) -> None:
        self.builder = RecordingBuilder()
        self._report = report
        self._base_ns = base_ns
        self._max_name_characters = max_name_characters
        self._draft = EventDraft()
        self._tracks = TrackTable(report)
        self._devices = DeviceRows()
        self._flows = Flows()
        self._scopes = ScopePairer(is_async=False)
        self._async_scopes = ScopePairer(is_async=True)
        self._categories: dict[object, Category] = {}
        self._names: dict[str, int] = {}
        self._payloads: dict[tuple[bytes, bytes, bytes, bytes], int] = {}
        self._ops_by_external_id: dict[int, int] = {}
        self._steps: list[tuple[int, int]] = []
        self._counters: list[tuple[int, int, int, int, float]] = []
        self._memory: list[tuple[int, ...]] = []
        self._phases = {
            "X": self._add_complete,
            "B": self._add_mark,
            "E": self._add_mark,
            "b": self._add_async,
            "e": self._add_async,
            "n": self._add_async,
            "S": self._add_async,
            "F": self._add_async,
            "T": self._add_async,
            "p": self._add_async,
            "s": self._add_flow,
            "t": self._add_flow,
            "f": self._add_flow,
            "i": self._add_instant,
            "I": self._add_instant,
            "R": self._add_instant,
            "M": self._add_metadata,
        }

    def add(self, events: Sequence[Event], texts: Sequence[Slice]) -> None:
        """Takes a batch of events, and the text of each."""
        phases = self._phases
        for index, event in enumerate(events):
            phase = event.ph
            add = phases.get(phase) if phase.__class__ is str else None
            if add is not None:
                add(event, texts[index])
            elif phase == "C":
                self._add_counters(event, self._time(event), -1, texts[index])
            else:
                self._report.add_problem("unsupported_phase" if phase else "no_phase")

    def finish(self) -> Recording:
        """Pairs begins and ends, links, and returns the recording."""
        draft, builder, report = self._draft, self.builder, self._report
        last_ns = int(draft.column("end_ns").max(initial=-MAX_TIME_NS))
        self._scopes.pair(draft, last_ns, report.problems)
        self._async_scopes.pair(draft, last_ns, report.problems)
        self._tracks.torch_thread_ids = infer_torch_thread_ids(draft)
        self._tracks.add_to(builder)
        draft.add_to(builder)
        self._devices.add_to(builder)
        add_launch_links(draft, self._flows, self._devices.table(), self._ops_by_external_id, builder, report)
        add_other_links(draft, self._flows, self._tracks.torch_thread_ids, builder, report)
        if self._counters:
            builder.add_counters(np.array(self._counters, dtype=COUNTER_DTYPE))
        if self._memory:
            builder.add_memory(np.array(self._memory, dtype=MEMORY_DTYPE))
        for row, number in self._steps:
            builder.add_step(
                draft.start_ns[row],
                draft.end_ns[row],
                number,
                track=draft.track[row],
                flags=StepFlags.HAS_NUMBER,
            )
        if names := self._tracks.process_names():
            builder.add_metadata({"process_names": names})
        recording, overruns = builder.finish_mended(rounding_ns=_ROUNDING_NS, stream_ns=_STREAM_OVERFLOW_NS)
        report.add_problem("end_rounded", overruns.rounded)
        report.add_problem("duration_overflows_stream", overruns.overflowed)
        report.add_problem("crossing_slices", overruns.crossing)
        return recording

    def _add_complete(self, event: Event, text: Slice) -> None:
        start_ns = self._time(event)
        if start_ns is None:
            return
        duration = event.dur
        duration_ns = duration * 1000 if duration.__class__ is int else microseconds_to_ns(duration)
        if duration_ns is None:
            self._report.add_problem("no_duration")
            duration_ns = 0
        if duration_ns < 0:
            self._report.add_problem("negative_duration")
            duration_ns = 0
        end_ns = start_ns + duration_ns
        if end_ns > MAX_TIME_NS:
            self._report.add_problem("time_out_of_range")
            end_ns = start_ns

        category = self._category(event.cat)
        kind = category.kind
        arguments = event.args
        correlation, sequence, forward_thread, payload = -1, -1, 0, 0
        if arguments is not None:
            if arguments.correlation is not None:
                correlation = to_int(arguments.correlation, -1, -1)
            if arguments.sequence is not None:
                sequence = to_int(arguments.sequence, -1, -1)
                forward_thread = to_int(arguments.forward_thread, 0, 0, _UINT32)
            payload = self._payload(arguments)
        name = event.name
        if kind is EventKind.OP or kind is EventKind.PYTHON:
            kind = kind_by_name(kind, name) if name.__class__ is str else kind
        track = self._tracks.number(event.pid, event.tid, category.on_device)
        row = self._draft.add(
            start_ns,
            end_ns,
            self._name(name),
            track,
            kind,
            USER_SCOPE if kind is EventKind.USER else 0,
            0,
            sequence,
            forward_thread,
            0,
            correlation,
            payload,
        )
        if kind is EventKind.USER and name.__class__ is str and (step := _STEP_NAME.fullmatch(name)):
            self._steps.append((row, int(step[1])))
        if arguments is not None:
            self._add_arguments(row, track, category, arguments)
        if event.cat == "cuda_profiler_range":
            self._add_counters(event, start_ns, row, text)

    def _add_arguments(self, row: int, track: int, category: Category, arguments: Arguments) -> None:
        if category.on_device:
            self._devices.add_work(row, arguments)
            if not self._tracks.knows_device(track):
                device = to_int(arguments.device, -1, -1, _INT32)
                context = to_int(arguments.context, -1, -1, _INT32)
                self._tracks.set_device(track, device, context, to_int(arguments.stream, -1))
        elif category.kind in _CALLS:
            self._devices.add_call(row, arguments)
        elif category.kind is EventKind.OP:
            external_id = arguments.external_id
            if external_id.__class__ is int and external_id > 0:
                self._ops_by_external_id.setdefault(external_id, row)

    def _payload(self, arguments: Arguments) -> int:
        # Most ops of a loop come again with the same inputs: they are encoded once.
        key = (
            bytes(arguments.input_dims),
            bytes(arguments.input_types),
            bytes(arguments.input_strides),
            bytes(arguments.concrete_inputs),
        )
        try:
            return self._payloads[key]
        except KeyError:
            encoded = encode_inputs(arguments)
            payload = self.builder.add_payload(encoded) if encoded else 0
            self._payloads[key] = payload
            return payload

    def _add_mark(self, event: Event, _text: Slice) -> None:
        time_ns = self._time(event)
        if time_ns is None:
            return
        category = self._category(event.cat)
        track = self._tracks.number(event.pid, event.tid, category.on_device)
        self._scopes.add(track, Mark(time_ns, event.ph, self._mark_name(event), track, category))

    def _add_async(self, event: Event, _text: Slice) -> None:
        time_ns = self._time(event)
        if time_ns is None:
            return
        category = self._category(event.cat)
        track = self._tracks.number(event.pid, event.tid, category.on_device)
        phase = {"b": "B", "S": "B", "e": "E", "F": "E"}.get(event.ph, "n")
        line = (str(event.cat), str(event.id if event.id is not None else event.id2))
        self._async_scopes.add(line, Mark(time_ns, phase, self._mark_name(event), track, category))

    def _add_flow(self, event: Event, _text: Slice) -> None:
        time_ns = self._time(event)
        if time_ns is None:
            return
        # Ends on a device and on a thread may bear the same numbers.
        track = self._tracks.find(event.pid, event.tid)
        flow_id = event.id if isinstance(event.id, int | str) else str(event.id)
        self._flows.add(event.ph, event.cat, flow_id, FlowEnd(track, time_ns))

    def _add_instant(self, event: Event, _text: Slice) -> None:
        time_ns = self._time(event)
        if time_ns is None:
            return
        track = self._tracks.number(event.pid, event.tid, False)
        arguments = event.args
        if event.name == "[memory]" and arguments is not None:
            size_bytes = to_int(arguments.memory_bytes, 0)
            allocated = to_int(arguments.total_allocated, -1, -1)
            reserved = to_int(arguments.total_reserved, -1, -1)
            device = to_int(arguments.device_id, -1, -1, _INT32)
            address = to_int(arguments.address, 0, 0, _UINT64)
            device_type = to_int(arguments.device_type, 0, 0, 255)
            self._memory.append(
                (time_ns, -1, address, size_bytes, allocated, reserved, track, device, device_type, 0)
            )
            return
        name = self._name(event.name)
        self._draft.add(time_ns, time_ns, name, track, EventKind.OTHER, flags=EventFlags.INSTANT)

    def _add_metadata(self, event: Event, _text: Slice) -> None:
        self._tracks.add_metadata(event)

    def _add_counters(self, event: Event, time_ns: int | None, row: int, text: Slice) -> None:
        if time_ns is None:
            return
        track = self._draft.track[row] if row >= 0 else self._tracks.number(event.pid, event.tid, False)
        name = event.name if row < 0 and isinstance(event.name, str) else ""
        values = numeric_arguments(text)
        if not values:
            self._report.add_problem("counter_without_value")
        for series, value in values.items():
            # A counter of an event is named by itself; one of a track by its event and series.
            name_id = (
                self.builder.add_name(name, series[:256]) if name else self.builder.add_name(series[:256])
            )
            self._counters.append((time_ns, row, track, name_id, value))

    def _time(self, event: Event) -> int | None:
        timestamp = event.ts
        if timestamp.__class__ is int:
            time_ns = timestamp * 1000
        else:
            converted = microseconds_to_ns(timestamp)
            if converted is None:
                self._report.add_problem("no_time" if timestamp is None else "bad_time")
                return None
            time_ns = converted
        if time_ns == 0 and self._zero_is_no_time():
            self._report.add_problem("zero_time")
            return None
        time_ns += self._base_ns
        if not -MAX_TIME_NS <= time_ns <= MAX_TIME_NS:
            self._report.add_problem("time_out_of_range")
            return None
        return time_ns

    def _zero_is_no_time(self) -> bool:
        starts = self._draft.start_ns
        return bool(starts) and abs(starts[0] - self._base_ns) > _ABSOLUTE_NS

    def _category(self, text: Any) -> Category:
        try:
            return self._categories[text]
        except (KeyError, TypeError):
            category = category_of(text)
            if isinstance(text, str) or text is None:
                self._categories[text] = category
            return category

    def _mark_name(self, event: Event) -> int:
        return 0 if event.name is None else self._name(event.name)

    def _name(self, name: Any) -> int:
        try:
            return self._names[name]
        except (KeyError, TypeError):
            pass
        text = name if isinstance(name, str) else "" if name is None else str(name)
        if not isinstance(name, str):
            self._report.add_problem("name_is_no_text")
        if len(text) > self._max_name_characters:
            self._report.add_problem("name_cut")
            text = text[: self._max_name_characters]
        number = self.builder.add_name(text)
        if isinstance(name, str):
            self._names[name] = number
        return number
