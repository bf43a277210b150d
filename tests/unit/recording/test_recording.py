"""Recordings as values: columns, names, tracks, steps, metadata."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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


def test_columns_are_read_only_views_that_outlive_the_recording() -> None:
    builder = RecordingBuilder()
    builder.add_track()
    builder.add_event("aten::add", 5, 9, sequence=3, kind=EventKind.USER, flags=EventFlags.ASYNC)
    recording = builder.finish()
    start_ns = recording.events.start_ns
    assert np.shares_memory(start_ns, recording.native.start_ns)
    with pytest.raises(ValueError, match="read-only"):
        start_ns[0] = 1
    assert recording.events.sequence.tolist() == [3]
    assert recording.events.kind.tolist() == [EventKind.USER]
    assert recording.events.flags.tolist() == [EventFlags.ASYNC]
    del recording, builder
    gc.collect()
    assert start_ns.tolist() == [5]


def test_rows_are_sorted_by_track_then_start_then_enclosing_first() -> None:
    builder = RecordingBuilder()
    builder.add_track("a")
    builder.add_track("b")
    builder.add_event("late", 9, 10, track=1)
    builder.add_event("inner", 1, 5, track=1)
    builder.add_event("outer", 1, 8, track=1)
    builder.add_event("first", 50, 60, track=0)
    recording = builder.finish()
    assert [recording.event_name(row) for row in range(4)] == ["first", "outer", "inner", "late"]


def test_links_follow_their_events_when_rows_are_sorted() -> None:
    builder = RecordingBuilder()
    builder.add_track()
    kernel = builder.add_event("kernel", 9, 10)
    launch = builder.add_event("launch", 1, 2)
    builder.add_link(kernel, launch, LinkType.LAUNCH)
    links = builder.finish().links
    assert (links.from_event.tolist(), links.to_event.tolist()) == ([1], [0])
    assert links.type.tolist() == [LinkType.LAUNCH]


def test_correlation_is_minus_one_for_events_without_one() -> None:
    builder = RecordingBuilder()
    builder.add_track()
    builder.add_event("a", 0, 1)
    builder.add_event("b", 2, 3, correlation=7)
    builder.add_event("c", 4, 5)
    assert builder.finish().events.correlation.tolist() == [-1, 7, -1]


def test_errors_follow_their_events_when_rows_are_sorted_and_are_no_column_without_any() -> None:
    builder = RecordingBuilder()
    builder.add_track()
    builder.add_event("late", 9, 10)
    builder.add_event("bad", 1, 2, error="KeyError")
    builder.add_event("later", 19, 20)
    recording = builder.finish()
    assert [recording.name(int(error)) for error in recording.events.error] == ["KeyError", "", ""]
    assert not len(Recording.empty().events.error)


def test_equal_names_share_an_id_unless_their_overloads_differ() -> None:
    builder = RecordingBuilder()
    add = builder.add_name("aten::add", "Tensor")
    assert builder.add_name("aten::add", "Tensor") == add
    assert builder.add_name("aten::add", "Scalar") != add
    assert builder.add_name("aten::ad", "dTensor") != add
    recording = builder.finish()
    assert (recording.name(add), recording.overload_name(add)) == ("aten::add", "Tensor")


@pytest.mark.parametrize("name", ['a"b\\c', "tab\tnew\nline\x00nul", "名前 🔥", "x" * 100_000])
def test_names_come_back_as_they_were(name: str) -> None:
    builder = RecordingBuilder()
    builder.add_track()
    builder.add_event(name, 0, 1)
    assert builder.finish().event_name(0) == name


def test_a_lone_surrogate_costs_the_character_not_the_event() -> None:
    builder = RecordingBuilder()
    builder.add_track()
    builder.add_event("a\ud800b", 0, 1)
    name = builder.finish().event_name(0)
    assert name.startswith("a\ufffd")
    assert name.endswith("b")


def test_steps_and_tracks() -> None:
    builder = RecordingBuilder()
    builder.add_track("stream 7", TrackKind.STREAM, process_id=1, thread_id=7, device=0, context=2)
    context = SpanContext(bytes(range(16)), bytes(range(8)))
    flags = StepFlags.HAS_NUMBER
    builder.add_step(10, 20, 4, phase=StepPhase.EVAL, flags=flags, links=[context], context=context)
    builder.add_step(0, 10, 3)
    recording = builder.finish()
    assert [step.number for step in recording.steps] == [3, 4]
    step = recording.steps[1]
    assert (step.phase, step.flags, step.duration_ns) == (StepPhase.EVAL, StepFlags.HAS_NUMBER, 10)
    assert step.context.is_valid
    assert step.links == (context,)
    assert not recording.steps[0].context.is_valid
    (track,) = recording.tracks
    assert (track.name, track.kind, track.thread_id, track.device) == ("stream 7", TrackKind.STREAM, 7, 0)


BACKWARD = 1  # at::RecordScope::BACKWARD_FUNCTION


@pytest.mark.parametrize(
    ("name", "fields", "phase"),
    [
        ("AddBackward0", {"scope": BACKWARD}, StepPhase.TRAIN),
        ("autograd::engine::evaluate_function: AddBackward0", {}, StepPhase.TRAIN),
        ("AddBackward0", {"forward_thread": 1}, StepPhase.TRAIN),
        ("autograd::engine::evaluate_function: AddBackward0", {"kind": EventKind.KERNEL}, StepPhase.UNKNOWN),
        ("aten::add", {"sequence": 3}, StepPhase.UNKNOWN),
    ],
)
def test_a_step_in_which_a_backward_began_is_of_training(
    name: str, fields: dict[str, Any], phase: StepPhase, tmp_path: Path
) -> None:
    builder = RecordingBuilder()
    builder.add_track()
    builder.add_track()
    builder.add_step(0, 10, 1)
    builder.add_step(10, 20, 2)
    builder.add_step(20, 30, 3, phase=StepPhase.EVAL)
    builder.add_step(30, 40, 4)
    builder.add_event(name, 10, 25, track=1, **fields)
    builder.add_event(name, 20, 25, track=1, **fields)
    builder.add_event(name, 40, 45, track=1, **fields)
    recording = builder.finish()
    expected = [StepPhase.UNKNOWN, phase, StepPhase.EVAL, StepPhase.UNKNOWN]
    assert [step.phase for step in recording.steps] == expected
    path = tmp_path / "run.tprof"
    recording.save(path)
    assert [step.phase for step in Recording.open(path).steps] == expected


def test_later_metadata_wins() -> None:
    builder = RecordingBuilder()
    builder.add_metadata({"rank": 0, "run": "a"})
    builder.add_metadata({"rank": 1, "text": 'quote " and\ttab'})
    assert builder.finish().metadata == {"rank": 1, "run": "a", "text": 'quote " and\ttab'}


@pytest.mark.parametrize("line", [b"{", b"[1]", b'{"x": NaN}', b"\xff\xfe", b"[" * 100_000])
def test_metadata_that_is_no_json_object_is_counted(line: bytes) -> None:
    builder = RecordingBuilder()
    builder.add_metadata({"rank": 0})
    builder.native.add_metadata(line)
    recording = builder.finish()
    assert recording.metadata == {"rank": 0}
    assert recording.problems == {"unreadable_metadata": 1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"start_ns": 5, "end_ns": 4}, "ends before it starts"),
        ({"start_ns": 0, "end_ns": 1 << 62}, "time out of range"),
        ({"start_ns": 0, "end_ns": 1, "track": 1}, "track does not exist"),
        ({"start_ns": 0, "end_ns": 1, "kind": 99}, "unknown event kind"),
    ],
)
def test_the_builder_refuses_what_a_recording_cannot_hold(arguments: dict[str, int], message: str) -> None:
    builder = RecordingBuilder()
    builder.add_track()
    with pytest.raises(ValueError, match=message):
        builder.add_event("a", **arguments)  # type: ignore[arg-type]
    assert len(builder.finish()) == 0


def test_columns_of_different_lengths_are_refused() -> None:
    builder = RecordingBuilder()
    builder.add_track()
    with pytest.raises(ValueError, match="different lengths"):
        builder.add_events([0, 0], [1, 2], [3, 4], [0])


def test_an_empty_recording_has_empty_everything() -> None:
    recording = Recording.empty()
    assert len(recording) == 0
    assert len(recording.tree()) == 0
    assert (recording.tracks, recording.steps, recording.drops, recording.problems) == ((), (), {}, {})
    assert recording.stopped


def test_the_model_needs_neither_torch_nor_opentelemetry() -> None:
    script = (
        "import sys; sys.modules['torch'] = None; sys.modules['opentelemetry'] = None\n"
        "from otel_torchprof.recording import Recording\n"
        "from otel_torchprof.analysis.averages import averages\n"
        "assert len(averages(Recording.empty())) == 0\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
