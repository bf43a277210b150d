"""Whatever a recording holds, its Chrome trace is one that the strictest reader takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.exporters import export
from otel_torchprof.importers import load
from otel_torchprof.recording import (
    EventFlags,
    EventKind,
    Recording,
    RecordingBuilder,
    Step,
    StepFlags,
    StepPhase,
    TrackKind,
)
from tests.support.chrome_rules import broken_rules, of_phase, read_strictly, to_ns
from tests.support.recordings import recordings


def exported(recording: Recording) -> tuple[dict[str, Any], dict[str, int]]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        counts = export(recording, path)
        return read_strictly(path), counts


@given(recordings())
def test_any_recording_keeps_the_rules(recording: Recording) -> None:
    trace, counts = exported(recording)
    assert broken_rules(trace) == []
    drawn = counts["slices"] + counts["async_events"] + counts["instants"] - len(recording.memory)
    assert drawn == len(recording)
    indexes = [event["args"]["Ev Idx"] for event in trace["traceEvents"] if event["ph"] in "Xbin"]
    assert sorted(indexes)[: len(recording)] == list(range(len(recording)))


@given(recordings())
def test_times_are_exact(recording: Recording) -> None:
    trace, _counts = exported(recording)
    base_ns = trace["baseTimeNanoseconds"]
    for event in of_phase(trace, "X"):
        row = event["args"]["Ev Idx"]
        if row < len(recording):
            start_ns = base_ns + to_ns(event["ts"])
            assert start_ns == recording.events.start_ns[row]
            assert start_ns + to_ns(event["dur"]) == recording.events.end_ns[row]


# Ends beyond starts, never the same twice: of equal slices only the order tells which encloses the other. By
# tens, as what outlasts another by a nanosecond is taken for rounded.
tens = st.integers(0, 30).map(lambda number: 10 * number)
slices = st.lists(
    st.tuples(
        tens,
        tens,
        st.integers(0, 1),
        st.sampled_from(
            [EventKind.OP, EventKind.USER, EventKind.PYTHON, EventKind.PYTHON_C, EventKind.MODULE]
        ),
        st.sampled_from([EventFlags(0), EventFlags.ASYNC, EventFlags.UNFINISHED, EventFlags.OTHER_THREAD]),
    ).filter(lambda drawn: drawn[0] < drawn[1]),
    max_size=12,
    unique_by=lambda drawn: drawn[:3],
)
steps = st.lists(
    st.tuples(tens, tens, st.integers(0, 1), st.sampled_from(StepPhase), st.booleans()),
    max_size=4,
)


@given(slices, steps)
def test_what_was_set_aside_is_put_back(
    drawn: list[tuple[int, int, int, EventKind, EventFlags]],
    drawn_steps: list[tuple[int, int, int, StepPhase, bool]],
) -> None:
    """Slices and steps that cross come back on their threads, with their self times; no step is an event."""
    builder = RecordingBuilder()
    for thread in range(2):
        builder.add_track("MainThread", process_id=1, thread_id=thread + 10)
    for index, (start_ns, end_ns, track, kind, flags) in enumerate(drawn):
        builder.add_event(
            f"event {index}.__exit__",
            start_ns,
            end_ns,
            track=track,
            kind=kind,
            flags=flags,
            end_track=1 - track,
        )
    for number, (start_ns, duration_ns, track, phase, is_partial) in enumerate(drawn_steps):
        wholeness = StepFlags.PARTIAL if is_partial else StepFlags(0)
        end_ns = start_ns + duration_ns
        builder.add_step(
            start_ns, end_ns, number, track=track, phase=phase, flags=StepFlags.HAS_NUMBER | wholeness
        )
    recording = builder.finish()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        export(recording, path)
        read_back, _report = load(path)
    assert placed(read_back) == placed(recording)
    assert sorted(map(placed_step(read_back), read_back.steps)) == sorted(
        map(placed_step(recording), recording.steps)
    )


def placed(recording: Recording) -> list[tuple[Any, ...]]:
    """Events with their threads, flags and self times."""
    events, self_ns = recording.events, recording.tree().self_ns
    return sorted(
        (
            recording.event_name(row),
            int(events.start_ns[row]),
            int(events.end_ns[row]),
            int(events.kind[row]),
            int(events.flags[row]),
            recording.tracks[events.track[row]].thread_id,
            int(self_ns[row]),
        )
        for row in range(len(recording))
    )


def placed_step(recording: Recording) -> Callable[[Step], tuple[int, ...]]:
    return lambda step: (
        *(step.number, step.start_ns, step.end_ns, int(step.phase), int(step.flags)),
        recording.tracks[step.track].thread_id,
    )


names = st.one_of(
    st.text(max_size=30),
    st.text(st.characters(categories=["Cs", "Cc"]), max_size=5),
    st.sampled_from(
        ['a"b', "é✓", "tab\t", "\x01", "\n", "\\", "\\u0041", "x" * 10_000, "\x7f\x85\u2028", "😀", "\0"]
    ),
)


@given(st.lists(names, max_size=8))
def test_names_come_back(texts: list[str]) -> None:
    builder = RecordingBuilder()
    builder.add_track("main", thread_id=1)
    for index, text in enumerate(texts):
        builder.add_event(text, 10 * index, 10 * index + 5)
    recording = builder.finish()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        export(recording, path)
        read_back, report = load(path)
    assert [read_back.event_name(row) for row in range(len(texts))] == [
        recording.event_name(row) for row in range(len(texts))
    ]
    assert report.format == "chrome"


def test_names_that_are_no_text_have_their_bytes_beside_them(tmp_path: Path) -> None:
    builder = RecordingBuilder()
    builder.add_track("main", thread_id=1)
    builder.add_event("a\ud800", 0, 5)
    export(builder.finish(), tmp_path / "trace.json")
    (event,) = of_phase(read_strictly(tmp_path / "trace.json"), "X")
    assert event["name"] == "a\ufffd\ufffd\ufffd"
    assert bytes.fromhex(event["args"]["Name bytes"]).decode("utf-8", "surrogatepass") == "a\ud800"
    # An import has the bytes again, so that a second export says the same.
    read_back, _report = load(tmp_path / "trace.json")
    export(read_back, tmp_path / "again.json")
    (again,) = of_phase(read_strictly(tmp_path / "again.json"), "X")
    assert (again["name"], again["args"]["Name bytes"]) == (event["name"], event["args"]["Name bytes"])


small = st.integers(0, 12)
intervals = st.lists(st.tuples(small, small).map(sorted), max_size=12)


@given(intervals, st.sampled_from([EventKind.KERNEL, EventKind.SYNC]))
def test_work_that_overlaps_on_a_stream_stays_visible(times: list[list[int]], kind: EventKind) -> None:
    builder = RecordingBuilder()
    builder.add_track("stream 7", TrackKind.STREAM, thread_id=7, device=0)
    for index, (start_ns, end_ns) in enumerate(times):
        builder.add_event(f"kernel {index}", start_ns, end_ns, kind=kind)
    recording = builder.finish()
    trace, counts = exported(recording)
    assert broken_rules(trace) == []
    assert counts["slices"] == len(times)
    # An importer reads the number of the stream out of the name of each lane.
    lanes = {str(event["tid"]).removeprefix("stream").strip() for event in of_phase(trace, "X")}
    assert lanes <= {"7"}


def crossing_on_a_thread(first: EventKind, second: EventKind) -> tuple[dict[str, Any], list[str]]:
    builder = RecordingBuilder()
    builder.add_track("main", thread_id=1)
    builder.add_event("first", 0, 10, kind=first)
    builder.add_event("second", 5, 15, kind=second)
    builder.add_event("inside both", 6, 8)
    trace, _counts = exported(builder.finish())
    assert broken_rules(trace) == []
    return trace, [event["name"] for event in of_phase(trace, "b")]


@pytest.mark.parametrize(
    ("first", "second", "gives_way"),
    [
        (EventKind.USER, EventKind.USER, "second"),
        (EventKind.USER, EventKind.OP, "first"),
        (EventKind.OP, EventKind.USER, "second"),
        (EventKind.PYTHON, EventKind.PYTHON, "second"),
    ],
)
def test_of_two_that_cross_the_users_scope_gives_way(
    first: EventKind, second: EventKind, gives_way: str
) -> None:
    _trace, asynchronous = crossing_on_a_thread(first, second)
    assert asynchronous == [gives_way]


def test_asynchronous_events_and_ends_on_other_threads_have_lines_of_their_own() -> None:
    builder = RecordingBuilder()
    builder.add_track("main", thread_id=1)
    builder.add_track("other", thread_id=2)
    builder.add_event("async", 0, 10, flags=EventFlags.ASYNC)
    builder.add_event("elsewhere", 2, 20, flags=EventFlags.OTHER_THREAD, end_track=1)
    trace, _counts = exported(builder.finish())
    ends = {event["name"]: (event["tid"], event["ts"]) for event in of_phase(trace, "e")}
    assert {event["name"]: event["tid"] for event in of_phase(trace, "b")} == {"async": 1, "elsewhere": 1}
    assert {name: (thread, to_ns(time)) for name, (thread, time) in ends.items()} == {
        "async": (1, 10),
        "elsewhere": (2, 20),
    }


def test_threads_that_share_an_id_get_different_ones() -> None:
    builder = RecordingBuilder()
    for name in ("one", "two"):
        builder.add_event(name, 0, 10, track=builder.add_track(name, process_id=5, thread_id=6))
    stream = builder.add_track("stream", TrackKind.STREAM, thread_id=6, device=5)
    builder.add_event("kernel", 0, 10, track=stream, kind=EventKind.KERNEL)
    trace, _counts = exported(builder.finish())
    places = {event["name"]: (event["pid"], event["tid"]) for event in of_phase(trace, "X")}
    assert places == {"one": (5, 6), "two": (5, 7), "kernel": (5, "stream 6")}
