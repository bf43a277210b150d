"""Hypothesis strategies for recordings, and their columns to compare."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from otel_torchprof.recording import (
    EventFlags,
    EventKind,
    LinkType,
    Recording,
    RecordingBuilder,
    SpanContext,
    StepFlags,
    StepPhase,
    TrackKind,
)

_MAX_TIME_NS = (1 << 62) - 1
_COLUMNS = (
    "start_ns",
    "end_ns",
    "name",
    "track",
    "kind",
    "scope",
    "flags",
    "sequence",
    "forward_thread",
    "end_track",
    "correlation",
)

small_times = st.integers(0, 40)
all_times = small_times | st.integers(-_MAX_TIME_NS, _MAX_TIME_NS)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
uint64 = st.integers(0, (1 << 64) - 1)
span_contexts = st.builds(SpanContext, st.binary(min_size=16, max_size=16), st.binary(min_size=8, max_size=8))


@st.composite
def recordings(draw: st.DrawFn) -> Recording:
    """Anything a recording can hold, small."""
    builder = RecordingBuilder()
    tracks = draw(st.integers(1, 4))
    for _ in range(tracks):
        builder.add_track(
            draw(st.text(max_size=20)),
            draw(st.sampled_from(TrackKind)),
            process_id=draw(int64),
            thread_id=draw(int64),
            torch_thread_id=draw(uint64),
            device=draw(st.integers(-1, 8)),
        )
    track_indexes = st.integers(0, tracks - 1)
    events = draw(st.integers(0, 12))
    for _ in range(events):
        start_ns, end_ns = sorted([draw(all_times), draw(all_times)])
        builder.add_event(
            draw(st.text(max_size=10)),
            start_ns,
            end_ns,
            overload=draw(st.sampled_from(["", "Tensor"])),
            track=draw(track_indexes),
            kind=draw(st.sampled_from(EventKind)),
            scope=draw(st.integers(0, 255)),
            flags=EventFlags(draw(st.integers(0, 15))),
            sequence=draw(st.integers(-1, 9) | int64),
            forward_thread=draw(st.integers(0, 3)),
            end_track=draw(track_indexes),
            correlation=draw(st.integers(-1, 5)),
            inputs=draw(st.just(b"") | st.binary(max_size=30)),
        )
    for _ in range(draw(st.integers(0, 3))):
        start_ns, end_ns = sorted([draw(all_times), draw(all_times)])
        builder.add_step(
            start_ns,
            end_ns,
            draw(int64),
            track=draw(track_indexes),
            phase=draw(st.sampled_from(StepPhase)),
            flags=StepFlags(draw(st.integers(0, 15))),
            context=draw(span_contexts),
            context_trace_flags=draw(st.integers(0, 255)),
            links=draw(st.lists(span_contexts, max_size=3)),
        )
    if events:
        event_numbers = st.integers(0, events - 1)
        for _ in range(draw(st.integers(0, 3))):
            builder.add_link(draw(event_numbers), draw(event_numbers), draw(st.sampled_from(LinkType)))
    for _ in range(draw(st.integers(0, 2))):
        values = st.text(max_size=5) | int64
        builder.add_metadata(draw(st.dictionaries(st.text(max_size=5), values, max_size=3)))
    builder.add_drops("byte_cap", draw(st.integers(0, 100)))
    builder.set_process(draw(uint64), draw(uint64))
    builder.set_stopped(draw(st.booleans()))
    return builder.finish()


def columns(recording: Recording) -> dict[str, Any]:
    """All that a recording says, in comparable values."""
    values: dict[str, Any] = {column: getattr(recording.events, column).tolist() for column in _COLUMNS}
    values |= {
        "names": [recording.event_name(row) for row in range(len(recording))],
        "overloads": [recording.overload_name(name) for name in recording.events.name.tolist()],
        "inputs": [recording.inputs(row) for row in range(len(recording))],
        "tracks": recording.tracks,
        "steps": recording.steps,
        "links": [
            recording.links.from_event.tolist(),
            recording.links.to_event.tolist(),
            recording.links.type.tolist(),
        ],
        "metadata": dict(recording.metadata),
        "drops": dict(recording.drops),
        "range": (recording.start_ns, recording.end_ns),
        "process": (recording.process_id, recording.process_instance, recording.stopped),
    }
    return values
