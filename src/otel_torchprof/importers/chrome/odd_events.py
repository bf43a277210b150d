"""Events that native code left as text: those of rare phases, and those of rare shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from otel_torchprof._native import core
from otel_torchprof.importers.chrome.categories import USER_SCOPE, category_class, category_of
from otel_torchprof.importers.chrome.devices import call_record, work_record
from otel_torchprof.importers.chrome.flows import Flows
from otel_torchprof.importers.chrome.memory import (
    MEMORY_NAME,
    MEMORY_TOTAL_CATEGORY,
    OUT_OF_MEMORY_NAME,
    memory_record,
)
from otel_torchprof.importers.chrome.own_steps import own_step
from otel_torchprof.importers.chrome.schema import NO_ARGUMENTS, Event, Label, Slice, numeric_arguments
from otel_torchprof.importers.chrome.scopes import Mark, ScopePairer
from otel_torchprof.importers.chrome.times import NO_TIME, microseconds_to_ns
from otel_torchprof.importers.chrome.trace_builder import TraceBuilder
from otel_torchprof.importers.numbers import to_int
from otel_torchprof.recording import ARGUMENTS_DTYPE, EventFlags, EventKind

_ASYNC_PHASES = {"b": "B", "S": "B", "e": "E", "F": "E", "n": "n", "T": "n", "p": "n"}
_UINT32 = (1 << 32) - 1
_MAX_SERIES_CHARACTERS = 256


class OddEvents:
    """Adds events one by one, in the order of the file."""

    def __init__(self, trace: TraceBuilder, flows: Flows) -> None:
        self._trace = trace
        self._flows = flows
        self._scopes = ScopePairer(is_async=False, takes=self._take_step)
        self._async_scopes = ScopePairer(is_async=True, takes=self._take_step)

    def add(self, events: Sequence[Event], texts: Sequence[Slice]) -> None:
        """Takes events, and the text of each."""
        timed = [(event, text) for event, text in zip(events, texts, strict=True) if self._has_time(event)]
        times = self._trace.clock.column([event.ts for event, _text in timed]).tolist()
        for (event, text), time_ns in zip(timed, times, strict=True):
            if time_ns != NO_TIME:
                _ADD[event.ph](self, event, time_ns, text)

    def _has_time(self, event: Event) -> bool:
        """Whether an event of this phase has a time; takes what has none."""
        if event.ph in _ADD:
            return True
        if event.ph == "M":
            self._trace.tracks.add_metadata(event)
        else:
            self._trace.report.add_problem("unsupported_phase" if event.ph else "no_phase")
        return False

    def pair_scopes(self, last_ns: int) -> None:
        """Makes events of begins and ends; what is never ended lasts until `last_ns`."""
        for scopes in (self._scopes, self._async_scopes):
            for row, mark in scopes.pair(self._trace.draft, last_ns, self._trace.report.problems):
                self._refine_kind(row, mark.event)
                if mark.event.args is not None:
                    self._add_device_record(row, mark.event)
                    self._add_details(row, mark.event, mark.text)

    def _refine_kind(self, row: int, begin: Event) -> None:
        draft = self._trace.draft
        if begin.name is not None:
            draft.name[row] = self._trace.names[_name(begin)]
        kinds, names = (np.array([column[row]], dtype=np.int64) for column in (draft.kind, draft.name))
        self._trace.names.refine_kinds(kinds, names)
        draft.kind[row], draft.name[row] = int(kinds[0]), int(names[0])

    def _take_step(self, begin: Mark, end_ns: int) -> bool:
        number = self._trace.names.step_numbers.get(begin.name)
        step = own_step(begin.event, number, begin.time_ns, end_ns, begin.track)
        if step is not None:
            self._trace.add_own_step(step)
        return step is not None

    def _add_complete(self, event: Event, start_ns: int, text: Slice) -> None:
        trace = self._trace
        category = category_of(event.cat)
        kinds = np.array([category.kind], dtype=np.int64)
        names = np.array([trace.names[_name(event)]], dtype=np.int64)
        trace.names.refine_kinds(kinds, names)
        kind = EventKind(int(kinds[0]))
        duration = microseconds_to_ns(event.dur)
        durations = trace.durations(
            np.array([NO_TIME if duration is None else duration]), np.array([start_ns])
        )
        end_ns = start_ns + int(durations[0])
        track = trace.tracks.number(event.pid, _thread(event), category.on_device)
        number = trace.names.step_numbers.get(int(names[0]))
        if step := own_step(event, number, start_ns, end_ns, track):
            trace.add_own_step(step)
            return
        row = trace.draft.add(
            start_ns,
            end_ns,
            int(names[0]),
            track,
            kind,
            scope=USER_SCOPE if kind == EventKind.USER else 0,
        )
        trace.add_steps(row, kinds, names)
        if event.cat == "cuda_profiler_range":
            # The counters that CUPTI read over the time of a kernel.
            self._add_counters("", start_ns, row, trace.draft.track[row], text)
        self._add_device_record(row, event)
        self._add_details(row, event, text)

    def _add_details(self, row: int, event: Event, text: Slice) -> None:
        """What the arguments of an event say, and its name in full."""
        if event.args is None:
            return
        trace, draft, arguments = self._trace, self._trace.draft, event.args
        if event.name is not None:
            name = trace.names.number(_name(event), arguments.overload_name, arguments.name_bytes)
            draft.name[row] = trace.names.of_kind(name, EventKind(draft.kind[row]))
        draft.sequence[row] = max(to_int(arguments.sequence, -1), -1)
        if draft.sequence[row] >= 0:
            draft.forward_thread[row] = to_int(arguments.forward_thread, 0, 0, _UINT32)
        draft.correlation[row] = max(to_int(arguments.correlation, -1), -1)
        draft.payload[row] = trace.inputs.of(arguments)
        if arguments.finished is False:
            draft.flags[row] |= EventFlags.UNFINISHED
        if isinstance(arguments.training, bool):
            draft.flags[row] |= EventFlags.TRAINING if arguments.training else EventFlags.EVALUATION
        kind = draft.kind[row]
        external_id = to_int(arguments.external_id, -1)
        trace.add_op_external_ids(row, np.array([kind]), np.array([external_id]))
        try:
            others = core.other_arguments(bytes(text), category_class(event.cat))
        except ValueError:
            trace.report.add_problem("arguments_too_long")
            others = b""
        if others:
            record = (row, trace.counted.add_arguments(others), 0)
            trace.arguments_records.append(np.array([record], dtype=ARGUMENTS_DTYPE))

    def _add_device_record(self, row: int, event: Event) -> None:
        arguments = event.args or NO_ARGUMENTS
        if category_of(event.cat).on_device:
            record = work_record(row, arguments)
            self._trace.device_records.append(record)
            self._trace.set_devices(record)
        elif self._trace.draft.kind[row] in {EventKind.RUNTIME, EventKind.DRIVER}:
            self._trace.device_records.append(call_record(row, arguments))

    def _add_mark(self, event: Event, time_ns: int, text: Slice) -> None:
        category = category_of(event.cat)
        track = self._trace.tracks.number(event.pid, event.tid, category.on_device)
        # Ends have no arguments: what a full name has more than this does not pair them.
        name = 0 if event.name is None else self._trace.names[event.name]
        if event.ph in _ASYNC_PHASES:
            line = (str(event.cat), str(event.id if event.id is not None else event.id2))
            mark = Mark(time_ns, _ASYNC_PHASES[event.ph], name, track, category, event, text)
            self._async_scopes.add(line, mark)
        else:
            self._scopes.add(track, Mark(time_ns, event.ph, name, track, category, event, text))

    def _add_flow(self, event: Event, time_ns: int, _text: Slice) -> None:
        place = self._trace.tracks.place(event.pid, event.tid)
        self._flows.add(event.cat, event.id, place, time_ns, is_start=event.ph == "s")

    def _add_instant(self, event: Event, time_ns: int, text: Slice) -> None:
        trace = self._trace
        track = trace.tracks.number(event.pid, event.tid, False)
        if event.name in (MEMORY_NAME, OUT_OF_MEMORY_NAME) and event.args is not None:
            failed = event.name == OUT_OF_MEMORY_NAME
            trace.memory_records.append(memory_record(event.args, time_ns, track, failed=failed))
            return
        row = trace.draft.add(
            time_ns, time_ns, trace.names[event.name], track, EventKind.OTHER, flags=EventFlags.INSTANT
        )
        self._add_details(row, event, text)

    def _add_counter_event(self, event: Event, time_ns: int, text: Slice) -> None:
        if event.cat == MEMORY_TOTAL_CATEGORY:
            return  # what the instants say already
        track = self._trace.tracks.number(event.pid, event.tid, False)
        self._add_counters(str(event.name), time_ns, -1, track, text)

    def _add_counters(self, name: str, time_ns: int, row: int, track: int, text: Slice) -> None:
        """A counter of an event is named by itself, one of a track by its event and its series."""
        trace = self._trace
        values = numeric_arguments(text)
        if not values:
            trace.report.add_problem("counter_without_value")
        for series, value in values.items():
            series_name = series[:_MAX_SERIES_CHARACTERS]
            names = (name, series_name) if name else (series_name,)
            trace.counters.append((time_ns, row, track, trace.builder.add_name(*names), value))


def _name(event: Event) -> Label:
    """What an event is called; of calls of modules our exporter gives the function beside that."""
    function = None if event.args is None else event.args.function
    return function if isinstance(function, str) else event.name


def _thread(event: Event) -> Label:
    """What an event calls its thread; where our exporter has put it beside that, the thread it is of."""
    thread = None if event.args is None else event.args.on_thread
    return event.tid if isinstance(thread, bool) or not isinstance(thread, int | str) else thread


_ADD: dict[str | None, Callable[[OddEvents, Event, int, Slice], None]] = {
    "X": OddEvents._add_complete,
    **dict.fromkeys(("B", "E", *_ASYNC_PHASES), OddEvents._add_mark),
    **dict.fromkeys(("s", "t", "f"), OddEvents._add_flow),
    **dict.fromkeys(("i", "I", "R"), OddEvents._add_instant),
    "C": OddEvents._add_counter_event,
}
