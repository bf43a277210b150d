"""Python calls that enter and leave a user's scope, and so cross it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.recording import EventFlags, EventKind, Recording, RecordingBuilder
from tests.support.recordings import small_times

PYTHON, C, USER, OP = EventKind.PYTHON, EventKind.PYTHON_C, EventKind.USER, EventKind.OP
Times = dict[str, tuple[int, int]]


def _recording(*events: tuple[str, EventKind, int, int]) -> Recording:
    builder = RecordingBuilder()
    builder.add_track()
    for name, kind, start_ns, end_ns in events:
        builder.add_event(name, start_ns, end_ns, kind=kind)
    return builder.finish()


def _times(recording: Recording) -> Times:
    events = recording.events
    return {
        recording.event_name(row): (int(events.start_ns[row]), int(events.end_ns[row]))
        for row in range(len(recording))
    }


def _parents(recording: Recording) -> dict[str, str | None]:
    parents = recording.tree().parent.tolist()
    return {
        recording.event_name(row): None if parent < 0 else recording.event_name(parent)
        for row, parent in enumerate(parents)
    }


# As torch 2.13 does it, down to the C functions.
WITH_STATEMENT = (
    ("train", PYTHON, 0, 1000),
    ("record_function.__enter__", PYTHON, 10, 60),
    ("OpOverloadPacket.__call__", PYTHON, 20, 50),
    ("_record_function_enter_new", C, 25, 45),
    ("forward", USER, 30, 900),
    ("is_scripting", PYTHON, 52, 55),
    ("aten::mm", OP, 100, 800),
    ("record_function.__exit__", PYTHON, 850, 920),
    ("TorchBindOpOverload.__call__", PYTHON, 860, 910),
    ("isinstance", C, 865, 870),
    ("_record_function_exit", C, 880, 905),
    ("DisableTorchFunctionSubclass.__exit__", C, 912, 918),
)


def test_they_end_where_the_scope_begins_or_ends() -> None:
    recording = _recording(*WITH_STATEMENT)
    assert _times(recording) == {
        **{name: (start_ns, end_ns) for name, _kind, start_ns, end_ns in WITH_STATEMENT},
        "record_function.__enter__": (10, 30),
        "OpOverloadPacket.__call__": (20, 30),
        "_record_function_enter_new": (25, 30),
        "record_function.__exit__": (850, 900),
        "TorchBindOpOverload.__call__": (860, 900),
        "_record_function_exit": (880, 900),
    }


def test_what_such_a_call_still_does_lies_in_the_scope() -> None:
    parents = _parents(_recording(*WITH_STATEMENT))
    assert parents["forward"] == parents["record_function.__enter__"] == "train"
    assert parents["is_scripting"] == parents["aten::mm"] == parents["record_function.__exit__"] == "forward"
    assert parents["_record_function_exit"] == "TorchBindOpOverload.__call__"
    # That one began when the scope had ended.
    assert parents["DisableTorchFunctionSubclass.__exit__"] == "train"


def test_no_time_counts_twice() -> None:
    assert _recording(*WITH_STATEMENT).tree().self_ns.sum() == 1000


def test_they_are_cut_the_same_when_a_recording_is_saved_and_opened(tmp_path: object) -> None:
    recording = _recording(*WITH_STATEMENT)
    recording.save(f"{tmp_path}/scopes.tprof")
    assert _times(Recording.open(f"{tmp_path}/scopes.tprof")) == _times(recording)


def test_a_context_manager_of_the_program_is_one_too() -> None:
    recording = _recording(
        ("_GeneratorContextManager.__enter__", PYTHON, 0, 40),
        ("phase", PYTHON, 5, 35),
        ("record_function.__enter__", PYTHON, 10, 30),
        ("scope", USER, 20, 100),
        ("_GeneratorContextManager.__exit__", PYTHON, 80, 120),
        ("phase again", PYTHON, 85, 115),
        ("record_function.__exit__", PYTHON, 90, 110),
    )
    assert _times(recording) == {
        "_GeneratorContextManager.__enter__": (0, 20),
        "phase": (5, 20),
        "record_function.__enter__": (10, 20),
        "scope": (20, 100),
        "_GeneratorContextManager.__exit__": (80, 100),
        "phase again": (85, 100),
        "record_function.__exit__": (90, 100),
    }


def test_one_call_may_leave_several_scopes() -> None:
    recording = _recording(
        ("outer", USER, 0, 100),
        ("inner", USER, 10, 90),
        ("ExitStack.__exit__", PYTHON, 80, 110),
        ("record_function.__exit__", PYTHON, 85, 95),
        ("record_function.__exit__ again", PYTHON, 96, 105),
    )
    times = _times(recording)
    assert times["ExitStack.__exit__"] == (80, 90)
    assert times["record_function.__exit__"] == (85, 90)
    assert _parents(recording)["record_function.__exit__"] == "ExitStack.__exit__"


def test_the_profiler_of_torch_ends_a_step_and_begins_the_next_in_one_call() -> None:
    builder = RecordingBuilder()
    builder.add_track()
    builder.add_event("ProfilerStep#1", 0, 100, kind=USER)
    builder.add_event("step", 90, 130, kind=PYTHON, overload="/lib/torch/profiler/profiler.py:900")
    builder.add_event("record_function.__enter__", 110, 125, kind=PYTHON)
    builder.add_event("ProfilerStep#2", 120, 200, kind=USER)
    assert _times(builder.finish()) == {
        "ProfilerStep#1": (0, 100),
        "step": (90, 100),
        "record_function.__enter__": (110, 120),
        "ProfilerStep#2": (120, 200),
    }


@pytest.mark.parametrize(
    "crossing",
    [
        pytest.param(
            (("handler", PYTHON, 0, 20), ("record_function.__enter__", PYTHON, 5, 15)), id="coroutine"
        ),
        pytest.param((("aten::cat", OP, 0, 20),), id="op"),
    ],
)
def test_other_calls_that_a_scope_crosses_stay_as_they_are(
    crossing: tuple[tuple[str, EventKind, int, int], ...],
) -> None:
    recording = _recording(*crossing, ("request", USER, 10, 100), ("handler again", PYTHON, 90, 120))
    times = _times(recording)
    assert times["handler again"] == (90, 120)
    assert [times[name] for name, *_ in crossing] == [(start_ns, end_ns) for *_, start_ns, end_ns in crossing]


_names = st.sampled_from(["f", "a.__enter__", "b.__exit__", "OpOverload.__call__"])
_events = st.tuples(
    _names,
    st.sampled_from([PYTHON, C, USER, OP]),
    small_times,
    small_times,
    st.sampled_from([EventFlags(0), EventFlags.ASYNC]),
)


@given(st.lists(_events, max_size=20))
def test_whatever_crosses_only_ends_of_frames_move_and_rows_stay_in_order(
    drawn: list[tuple[str, EventKind, int, int, EventFlags]],
) -> None:
    builder, plain = RecordingBuilder(), RecordingBuilder()
    builder.add_track()
    plain.add_track()
    for name, kind, a_ns, b_ns, flags in drawn:
        builder.add_event(name, min(a_ns, b_ns), max(a_ns, b_ns), kind=kind, flags=flags)
        plain.add_event("", min(a_ns, b_ns), max(a_ns, b_ns), kind=kind, flags=flags)
    events, before = builder.finish().events, plain.finish().events
    assert events.start_ns.tolist() == before.start_ns.tolist()
    assert (events.end_ns >= events.start_ns).all()
    assert (events.end_ns <= before.end_ns).all()
    moved = events.end_ns != before.end_ns
    assert set(events.kind[moved].tolist()) <= {PYTHON, C}
    keys = list(zip(events.start_ns.tolist(), (-events.end_ns).tolist(), strict=True))
    assert keys == sorted(keys)
