"""The recording that a trace of torch.profiler and what we know of its session make together."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from otel_torchprof.importers import ImportLimits, load
from otel_torchprof.recorder.capture_options import CaptureOptions
from otel_torchprof.recorder.step_details import StepDetails
from otel_torchprof.recorder.torch_profiler import Mark
from otel_torchprof.recording import (
    EventKind,
    Recording,
    RecordingBuilder,
    SpanContext,
    StepFlags,
    StepPhase,
    Track,
    TrackKind,
)

# What an event takes in a recording of our own, whose bound holds here too.
_EVENT_BYTES = 48
_TRACE_ID_BYTES = 16
_SPAN_CONTEXT_BYTES = 24
# As Kineto writes places: the file relative to where it was imported from.
_OWN_CODE = (
    "otel_torchprof/profiler.py:",
    "otel_torchprof/profiling/",
    "otel_torchprof/torch_fallback.py:",
)
# The trace is ours, however large.
_NO_LIMIT = ImportLimits(max_size_bytes=1 << 62)


@dataclass(slots=True)
class MarkedStep:
    """A step between two marks; `end` is None while it is open."""

    begin: Mark
    number: int  # -1 = none
    details: StepDetails
    end: Mark | None = None


@dataclass(frozen=True, slots=True)
class TracedSession:
    """What a session leaves beside its trace."""

    mark_prefix: str
    begin: Mark
    end: Mark
    steps: Sequence[MarkedStep]
    metadata: Mapping[str, object]
    options: CaptureOptions


def read_trace(path: Path, session: TracedSession) -> Recording:
    """Reads the trace and gives it the session's steps; marks and Kineto's notes on itself are left out.

    Raises:
        UnreadableInputError: it is no trace.
    """
    traced, report = load(path, limits=_NO_LIMIT)
    conversion = _Conversion(traced, session)
    if report.problems:
        conversion.builder.add_metadata({"import_problems": dict(report.problems)})
    return conversion.finish()


class _Conversion:
    def __init__(self, traced: Recording, session: TracedSession) -> None:
        self.builder = RecordingBuilder()
        self._traced = traced
        self._session = session
        self._time_of_mark, is_mark = _find_marks(traced, session.mark_prefix)
        is_line = np.array([track.kind != TrackKind.OTHER for track in traced.tracks], dtype=bool)
        keep = ~is_mark & is_line[traced.events.track]
        is_call = np.isin(traced.events.kind, (EventKind.PYTHON, EventKind.PYTHON_C))
        keep &= ~(is_call & _is_own_code(traced) if session.options.with_stack else is_call)
        self._keep_what_fits(keep)
        self._thread_tracks: dict[int, int] = {}
        self.builder.add_events_of(traced, keep, self._add_tracks(keep, is_line))

    def finish(self) -> Recording:
        session = self._session
        self.builder.add_metadata(self._traced.metadata)
        self.builder.add_metadata(session.metadata)
        self.builder.set_this_process()
        self.builder.cover(self._time_ns(session.begin), self._time_ns(session.end))
        for step in session.steps:
            self._add_step(step)
        return self.builder.finish()

    def _keep_what_fits(self, keep: npt.NDArray[np.bool_]) -> None:
        rows = np.flatnonzero(keep)
        fitting = self._session.options.buffer_size_bytes // _EVENT_BYTES
        if len(rows) > fitting:
            in_time = rows[np.argsort(self._traced.events.start_ns[rows], kind="stable")]
            keep[in_time[fitting:]] = False
            self.builder.add_drops("byte_cap", len(rows) - fitting)

    def _add_tracks(self, keep: npt.NDArray[np.bool_], is_line: npt.NDArray[np.bool_]) -> dict[int, int]:
        """Adds the lines that something lies on, in order of time; threads by their Python names."""
        traced = self._traced
        in_time = np.argsort(traced.events.start_ns[keep], kind="stable")
        used = np.concatenate(
            [traced.events.track[keep][in_time], traced.memory["track"], traced.counters["track"]]
        )
        names = {thread.native_id: thread.name for thread in threading.enumerate()}
        added: dict[int, int] = {}
        for number in dict.fromkeys(used[is_line[used]].tolist()):
            track = traced.tracks[number]
            is_thread = track.kind == TrackKind.THREAD
            name = names.get(track.thread_id, track.name) if is_thread else track.name
            added[number] = self._add_track(track, name)
            if is_thread:
                self._thread_tracks[track.thread_id] = added[number]
        return added

    def _add_track(self, track: Track, name: str) -> int:
        return self.builder.add_track(
            name,
            track.kind,
            process_id=track.process_id,
            thread_id=track.thread_id,
            torch_thread_id=track.torch_thread_id,
            device=track.device,
            context=track.context,
        )

    def _add_step(self, step: MarkedStep) -> None:
        flags = StepFlags(step.details.flags)
        if step.end is None:
            flags |= StepFlags.PARTIAL | StepFlags.UNFINISHED
        start_ns = self._time_ns(step.begin)
        contexts = list(_span_contexts(step.details.context))
        self.builder.add_step(
            start_ns,
            max(start_ns, self._time_ns(step.end or self._session.end)),
            step.number,
            track=self._thread_track(step.begin),
            phase=StepPhase(step.details.phase),
            flags=flags,
            **({"context": contexts[0]} if contexts else {}),
            context_trace_flags=step.details.context_trace_flags,
            links=list(_span_contexts(step.details.links)),
        )

    def _time_ns(self, mark: Mark) -> int:
        return self._time_of_mark.get(mark.name, mark.unix_ns)

    def _thread_track(self, mark: Mark) -> int:
        if mark.thread_id not in self._thread_tracks:
            self._thread_tracks[mark.thread_id] = self.builder.add_track(
                mark.thread_name, process_id=self._traced.process_id, thread_id=mark.thread_id
            )
        return self._thread_tracks[mark.thread_id]


def _find_marks(traced: Recording, prefix: str) -> tuple[dict[str, int], npt.NDArray[np.bool_]]:
    """The start of each mark by its name, and which events are marks."""
    names = {
        name_id: name
        for name_id in range(traced.name_count)
        if (name := traced.name(name_id)).startswith(prefix)
    }
    is_mark = np.isin(traced.events.name, list(names))
    rows = np.flatnonzero(is_mark)
    starts = traced.events.start_ns[rows].tolist()
    name_ids = traced.events.name[rows].tolist()
    return {names[name_id]: start for name_id, start in zip(name_ids, starts, strict=True)}, is_mark


def _is_own_code(traced: Recording) -> npt.NDArray[np.bool_]:
    """Which events are calls of a profile's methods, or lie in one."""
    own_names = [
        name_id for name_id in range(traced.name_count) if traced.overload_name(name_id).startswith(_OWN_CODE)
    ]
    is_own = np.isin(traced.events.name, own_names)
    parent = traced.tree().parent
    has_parent = parent >= 0
    while True:
        is_in_own = is_own | (has_parent & is_own[parent])
        if (is_in_own == is_own).all():
            return is_own
        is_own = is_in_own


def _span_contexts(packed: bytes) -> Iterable[SpanContext]:
    for offset in range(0, len(packed), _SPAN_CONTEXT_BYTES):
        one = packed[offset : offset + _SPAN_CONTEXT_BYTES]
        yield SpanContext(one[:_TRACE_ID_BYTES], one[_TRACE_ID_BYTES:])
