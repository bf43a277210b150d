"""Turns decoded trace events into the rows of a recording."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import numpy as np
import numpy.typing as npt

from otel_torchprof.importers.chrome.categories import CategoryTable, category_of
from otel_torchprof.importers.chrome.clock import TraceClock
from otel_torchprof.importers.chrome.complete_events import CompleteEvents
from otel_torchprof.importers.chrome.links import (
    Flows,
    add_launch_links,
    add_other_links,
    infer_torch_thread_ids,
)
from otel_torchprof.importers.chrome.memory import memory_records
from otel_torchprof.importers.chrome.names import NameTable
from otel_torchprof.importers.chrome.schema import Event, Slice, numeric_arguments
from otel_torchprof.importers.chrome.scopes import Mark, ScopePairer
from otel_torchprof.importers.chrome.times import MAX_TIME_NS, NO_TIME
from otel_torchprof.importers.chrome.tracks import TrackTable
from otel_torchprof.importers.columns import EventDraft
from otel_torchprof.importers.report import ImportReport
from otel_torchprof.recording import (
    COUNTER_DTYPE,
    EventFlags,
    EventKind,
    Recording,
    RecordingBuilder,
    StepFlags,
)

# Work on a stream that lasts this much longer than until the next one begins has a wrong end.
_STREAM_OVERFLOW_NS = 1_000_000_000
# A child may outlast its parent by this much: where Kineto cut times to microseconds, and where it did not.
_ROUNDING_US_NS = 1_000
_ROUNDING_NS = 1

_ASYNC_PHASES = {"b": "B", "S": "B", "e": "E", "F": "E", "n": "n", "T": "n", "p": "n"}
_MAX_SERIES_CHARACTERS = 256


class TraceReader:
    """Takes the events of a trace in the order of the file.

    Args:
        report: where problems are counted.
        base_ns: what times count from.
        max_name_characters: longer names are cut.
        is_kineto: whether Kineto wrote the trace, whose times may be cut to microseconds.
    """

    def __init__(
        self, report: ImportReport, base_ns: int, max_name_characters: int, *, is_kineto: bool
    ) -> None:
        self.builder = RecordingBuilder()
        self._report = report
        self._is_kineto = is_kineto
        self._draft = EventDraft()
        self._tracks = TrackTable(report)
        self._names = NameTable(self.builder, report, max_name_characters)
        self._clock = TraceClock(base_ns, report)
        self._complete = CompleteEvents(
            self._draft, self.builder, self._tracks, self._names, CategoryTable(), self._clock, report
        )
        self._flows = Flows()
        self._scopes = ScopePairer(is_async=False)
        self._async_scopes = ScopePairer(is_async=True)
        self._counters: list[tuple[int, int, int, int, float]] = []
        self._memory: list[npt.NDArray[np.void]] = []

    def add(self, events: Sequence[Event], texts: Sequence[Slice]) -> None:
        """Takes a batch of events, and the text of each."""
        phases = [event.ph for event in events]
        for phase in dict.fromkeys(phases):
            chosen = [found == phase for found in phases]
            self._add_phase(phase, list(compress(events, chosen)), list(compress(texts, chosen)))

    def finish(self) -> Recording:
        """Pairs begins and ends, links, and returns the recording."""
        draft, builder, report = self._draft, self.builder, self._report
        last_ns = int(draft.column("end_ns").max(initial=-MAX_TIME_NS))
        self._scopes.pair(draft, last_ns, report.problems)
        self._async_scopes.pair(draft, last_ns, report.problems)
        self._tracks.torch_thread_ids = infer_torch_thread_ids(draft)
        self._tracks.add_to(builder)
        draft.add_to(builder)
        devices = self._complete.devices.table()
        builder.add_devices(devices)
        add_launch_links(draft, self._flows, devices, self._complete.ops_by_external_id, builder, report)
        add_other_links(draft, self._flows, self._tracks.torch_thread_ids, builder, report)
        if self._counters:
            builder.add_counters(np.array(self._counters, dtype=COUNTER_DTYPE))
        for records in self._memory:
            builder.add_memory(records)
        for row, number in self._complete.steps:
            builder.add_step(
                draft.start_ns[row],
                draft.end_ns[row],
                number,
                track=draft.track[row],
                flags=StepFlags.HAS_NUMBER,
            )
        if names := self._tracks.process_names():
            builder.add_metadata({"process_names": names})
        is_cut = self._is_kineto and not self._clock.has_fractions
        recording, overruns = builder.finish_mended(
            rounding_ns=_ROUNDING_US_NS if is_cut else _ROUNDING_NS, stream_ns=_STREAM_OVERFLOW_NS
        )
        report.add_problem("end_rounded", overruns.rounded)
        report.add_problem("duration_overflows_stream", overruns.overflowed)
        report.add_problem("crossing_slices", overruns.crossing)
        return recording

    def _add_phase(self, phase: str | None, events: list[Event], texts: list[Slice]) -> None:
        if phase == "X":
            row, added = self._complete.add(events)
            self._add_profiler_ranges(row, added, events, texts)
        elif phase in {"B", "E"} or phase in _ASYNC_PHASES:
            for event, time_ns in self._timed(events):
                self._add_mark(event, time_ns)
        elif phase in {"s", "t", "f"}:
            times = self._clock.column([event.ts for event in events]).tolist()
            find = self._tracks.find
            self._flows.add(events, [find(event.pid, event.tid) for event in events], times)
        elif phase in {"i", "I", "R"}:
            self._add_instants(events)
        elif phase == "C":
            self._add_counter_events(events, texts)
        elif phase == "M":
            for event in events:
                self._tracks.add_metadata(event)
        else:
            self._report.add_problem("unsupported_phase" if phase else "no_phase", len(events))

    def _add_counter_events(self, events: list[Event], texts: list[Slice]) -> None:
        text_of = {id(event): text for event, text in zip(events, texts, strict=True)}
        for event, time_ns in self._timed(events):
            track = self._tracks.number(event.pid, event.tid, False)
            self._add_counters(str(event.name), time_ns, -1, track, text_of[id(event)])

    def _timed(self, events: Sequence[Event]) -> list[tuple[Event, int]]:
        """The events that have a time, and that time."""
        times = self._clock.column([event.ts for event in events]).tolist()
        return [(event, time) for event, time in zip(events, times, strict=True) if time != NO_TIME]

    def _add_mark(self, event: Event, time_ns: int) -> None:
        category = category_of(event.cat)
        track = self._tracks.number(event.pid, event.tid, category.on_device)
        name = 0 if event.name is None else self._names[event.name]
        if event.ph in _ASYNC_PHASES:
            line = (str(event.cat), str(event.id if event.id is not None else event.id2))
            mark = Mark(time_ns, _ASYNC_PHASES[event.ph], name, track, category)
            self._async_scopes.add(line, mark)
        else:
            self._scopes.add(track, Mark(time_ns, event.ph, name, track, category))

    def _add_instants(self, events: Sequence[Event]) -> None:
        timed = self._timed(events)
        memory = [pair for pair in timed if pair[0].name == "[memory]" and pair[0].args is not None]
        if memory:
            tracks = [self._tracks.number(event.pid, event.tid, False) for event, _time in memory]
            self._memory.append(memory_records(memory, tracks))
        if len(memory) == len(timed):
            return
        for event, time_ns in timed:
            if event.name == "[memory]" and event.args is not None:
                continue
            track = self._tracks.number(event.pid, event.tid, False)
            name = self._names[event.name]
            self._draft.add(time_ns, time_ns, name, track, EventKind.OTHER, flags=EventFlags.INSTANT)

    def _add_profiler_ranges(
        self, row: int, added: Sequence[Event], events: Sequence[Event], texts: Sequence[Slice]
    ) -> None:
        """The counters that CUPTI read over the time of each kernel."""
        if not any(event.cat == "cuda_profiler_range" for event in added):
            return
        text_of = {id(event): text for event, text in zip(events, texts, strict=True)}
        for place, event in enumerate(added, row):
            if event.cat == "cuda_profiler_range":
                start_ns, track = self._draft.start_ns[place], self._draft.track[place]
                self._add_counters("", start_ns, place, track, text_of[id(event)])

    def _add_counters(self, name: str, time_ns: int, row: int, track: int, text: Slice) -> None:
        """A counter of an event is named by itself, one of a track by its event and its series."""
        values = numeric_arguments(text)
        if not values:
            self._report.add_problem("counter_without_value")
        for series, value in values.items():
            series_name = series[:_MAX_SERIES_CHARACTERS]
            name_id = self.builder.add_name(name, series_name) if name else self.builder.add_name(series_name)
            self._counters.append((time_ns, row, track, name_id, value))
