"""Recording Python calls in a program that has a life of its own: threads, other profilers, forks."""

from __future__ import annotations

import cProfile
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_torchprof._native import core
from otel_torchprof.instrumentor import TorchprofInstrumentor
from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.capture_options import CaptureOptions
from otel_torchprof.recording import EventFlags, EventKind, Recording
from tests.integration.programs.plain_loop import train
from tests.support.call_trees import Call, FrameCapture, record, recorded_roots
from tests.support.metric_families import KeepingExporter


@pytest.fixture(autouse=True)
def profile_functions_are_as_before() -> Iterator[None]:
    before = sys.getprofile(), threading.getprofile()
    yield
    after = sys.getprofile(), threading.getprofile()
    sys.setprofile(before[0])
    threading.setprofile(before[1])
    assert after == before


def outer(action: Callable[[], object]) -> object:
    return action()


def named(recording: Recording, name: str) -> list[int]:
    return [row for row in range(len(recording)) if recording.event_name(row) == name]


def calls_named(roots: list[Call], name: str) -> list[Call]:
    return [call for root in roots for call in root.walk() if call.name == name]


def test_names_and_places() -> None:
    class Shape:
        def area(self) -> int:
            return abs(-1)

    recording = record(Shape().area)
    (row,) = named(recording, f"{test_names_and_places.__name__}.<locals>.Shape.area")
    first_line = Shape.area.__code__.co_firstlineno
    assert recording.overload_name(int(recording.events.name[row])) == f"{__file__}:{first_line}"
    assert recording.events.kind[row] == EventKind.PYTHON
    (below,) = recording.tree().children(row).tolist()
    assert recording.event_name(below) == "abs"
    assert recording.events.kind[below] == EventKind.PYTHON_C
    assert not recording.overload_name(int(recording.events.name[below]))


def test_frames_entered_before_begin_with_the_recording_and_those_left_open_are_unfinished() -> None:
    capture = FrameCapture()

    def start() -> None:
        capture.__enter__()

    def work() -> None:
        outer(lambda: None)
        capture.__exit__()

    start()
    work()
    recording = capture.recording()
    (test,) = named(recording, _here())
    assert recording.events.start_ns[test] == recording.start_ns
    assert recording.events.flags[test] == EventFlags.ENTERED_BEFORE | EventFlags.UNFINISHED
    (started,) = named(recording, f"{_here()}.<locals>.start")
    assert recording.events.flags[started] == EventFlags.ENTERED_BEFORE
    (working,) = named(recording, f"{_here()}.<locals>.work")
    assert recording.events.flags[working] == EventFlags.UNFINISHED
    assert recording.tree().parent[working] == test
    assert recording.events.end_ns[working] <= recording.end_ns
    of_the_thread = recording.events.track == recording.events.track[test]
    assert np.count_nonzero((recording.tree().parent == -1) & of_the_thread) == 1


def _here() -> str:
    return sys._getframe(1).f_code.co_name


def test_own_threads_have_no_part_in_recordings(tmp_path: Path) -> None:
    instrumentor = TorchprofInstrumentor()
    instrumentor.instrument(
        schedule="active=1", with_stack=True, recording_dir=tmp_path, span_exporter=InMemorySpanExporter()
    )
    train(6)  # our threads run from before the second recording on
    instrumentor.uninstrument()
    beside = Capture(options=CaptureOptions(with_stack=True))
    beside.start()
    instrumentor.instrument(mode="metrics", metric_exporter=KeepingExporter())  # and some begin in this one
    instrumentor.uninstrument()
    recordings = [Recording.open(path) for path in tmp_path.glob("*.tprof")] + [beside.stop()]
    assert len(recordings) > 3
    assert all(named(recording, "train") for recording in recordings[:-1])
    names = {track.name for recording in recordings for track in recording.tracks}
    assert "MainThread" in names
    assert not [name for name in names if name.startswith("otel-torchprof-")]


def idle_exporter() -> Any:
    """Of whatever is exported: it is given nothing."""
    return InMemorySpanExporter()


EXPORTING = [
    ("OtelBatchSpan", lambda: BatchSpanProcessor(idle_exporter())),
    ("OtelBatchLog", lambda: BatchLogRecordProcessor(idle_exporter())),
    ("OtelPeriodic", lambda: PeriodicExportingMetricReader(KeepingExporter())),
]


@pytest.mark.parametrize(("name", "make"), EXPORTING, ids=[name for name, _make in EXPORTING])
def test_exporting_threads_of_opentelemetry_have_no_part_either(
    name: str, make: Callable[[], Any], request: pytest.FixtureRequest
) -> None:
    def begin() -> None:
        request.addfinalizer(make().shutdown)

    begin()  # one thread runs from before the recording on
    capture = Capture(options=CaptureOptions(with_stack=True))
    capture.start()
    begin()  # and one begins in it
    recording = capture.stop()
    assert [thread for thread in threading.enumerate() if thread.name.startswith(name)]
    names = {track.name for track in recording.tracks}
    assert "MainThread" in names
    assert not [track for track in names if track.startswith(name)]


def test_own_machinery_is_hidden_and_what_it_calls_of_the_program_is_not() -> None:
    package = str(Path(core.__file__).parents[1])
    capture = Capture(options=CaptureOptions(with_stack=True))

    def program() -> None:
        capture.begin_step(1)
        torch.ones(1)
        capture.end_step()

    capture.start()
    program()
    recording = capture.stop()
    places = [recording.overload_name(int(name)) for name in np.unique(recording.events.name)]
    assert not [place for place in places if place.startswith(package)]
    (row,) = named(recording, f"{_here()}.<locals>.program")
    below = [recording.event_name(child) for child in recording.tree().children(row).tolist()]
    assert len(below) == 1  # torch.ones, nothing of ours
    assert "ones" in below[0]
    assert recording.metadata["sources"] == {"python_frames": "on"}


def test_an_ops_stack_is_the_functions_it_ran_in() -> None:
    capture = Capture(options=CaptureOptions(with_stack=True))

    def inner() -> None:
        torch.add(torch.ones(2), 1)

    capture.start()
    outer(inner)
    recording = capture.stop()
    (row,) = named(recording, "aten::add")
    stack = recording.stack_of(row)
    assert [frame.function for frame in stack[:3]] == [
        f"{_here()}.<locals>.inner",
        "outer",
        _here(),
    ]
    assert stack[1].file == __file__
    assert stack[1].line == outer.__code__.co_firstlineno
    assert recording.stack_of(named(recording, "outer")[0]) == stack[1:]
    assert not recording.drops
    assert not recording.problems


def test_functions_called_by_ops_lie_inside_them() -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
            return gradient * 2

    x = torch.ones(2, requires_grad=True)
    capture = Capture(options=CaptureOptions(with_stack=True))
    capture.start()
    Twice.apply(x).sum().backward()
    recording = capture.stop()
    (row,) = named(recording, f"{_here()}.<locals>.Twice.backward")
    above = [recording.event_name(at) for at in recording.tree().ancestors(row)]
    assert "TwiceBackward" in above
    assert _here() in above


def test_threads_that_run_already_and_that_start_later() -> None:
    tasks: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()

    def serve() -> None:
        while (task := tasks.get()) is not None:
            task()

    def early_task() -> None:
        done.set()

    def late_task() -> None:
        pass

    done = threading.Event()
    early = threading.Thread(target=serve, name="early")
    early.start()
    capture = FrameCapture()
    with capture:
        tasks.put(early_task)
        assert done.wait(60)
        late = threading.Thread(target=outer, args=(late_task,), name="late")
        late.start()
        late.join()
    tasks.put(None)
    early.join()
    roots = recorded_roots(capture.recording())
    (serving,) = calls_named(roots, f"{_here()}.<locals>.serve")
    assert [call.name.rpartition(".")[2] for call in serving.calls] == ["early_task", "get"]
    late_name = f"{_here()}.<locals>.late_task"
    late_roots = [root for root in roots if calls_named([root], late_name)]
    assert [calls_named([root], "outer") != [] for root in late_roots] == [True]


def test_a_thread_that_stood_still_has_its_stack() -> None:
    ready, may_go = threading.Event(), threading.Lock()
    may_go.acquire()

    def stands() -> None:
        ready.set()
        may_go.acquire()

    thread = threading.Thread(target=stands)
    thread.start()
    assert ready.wait(60)
    capture = FrameCapture()
    with capture:
        outer(lambda: None)
    may_go.release()
    thread.join()
    recording = capture.recording()
    (row,) = named(recording, f"{_here()}.<locals>.stands")
    assert recording.events.flags[row] == EventFlags.ENTERED_BEFORE | EventFlags.UNFINISHED
    assert recording.tracks[recording.events.track[row]].thread_id == thread.native_id
    assert recording.events.start_ns[row] == recording.start_ns
    assert [frame.function for frame in recording.stack_of(row)][-1].endswith("_bootstrap")


def test_a_profile_function_set_before_goes_on_and_is_given_back() -> None:
    events: list[str] = []

    def users(frame: FrameType, event: str, _argument: object) -> None:
        if frame.f_code is outer.__code__:
            events.append(event)

    capture = FrameCapture()
    sys.setprofile(users)
    with capture:
        assert sys.getprofile() is not users
        outer(lambda: None)
    given_back = sys.getprofile()
    sys.setprofile(None)
    assert given_back is users
    assert events == ["call", "return"]
    recording = capture.recording()
    assert len(named(recording, "outer")) == 1
    # What a profile function calls is nobody's to see.
    assert not named(recording, f"{_here()}.<locals>.users")


def test_a_profile_function_that_takes_itself_away_takes_nothing_else() -> None:
    calls: list[str] = []

    def users(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            calls.append(frame.f_code.co_name)
            sys.setprofile(None)

    capture = FrameCapture()
    sys.setprofile(users)
    with capture:
        outer(lambda: None)
        outer(lambda: None)
    assert sys.getprofile() is None
    assert len(calls) == 1
    assert len(named(capture.recording(), "outer")) == 2


def test_a_profile_function_that_raises_raises_where_it_did() -> None:
    def users(frame: FrameType, event: str, _argument: object) -> None:
        if frame.f_code is outer.__code__ and event == "call":
            raise LookupError("the program's own")

    capture = FrameCapture()
    sys.setprofile(users)
    with capture:
        with pytest.raises(LookupError):
            outer(lambda: None)
        outer(lambda: None)
    assert sys.getprofile() is None
    assert len(named(capture.recording(), "outer")) >= 1


def test_a_profiler_started_after_ours_has_the_thread_to_itself_until_it_ends() -> None:
    capture = FrameCapture()
    with capture:
        outer(lambda: None)
        profiler = cProfile.Profile()
        profiler.enable()
        outer(lambda: None)
        profiler.disable()
        outer(lambda: None)
        capture.source.step_begins()
        outer(lambda: None)
    recording = capture.recording()
    assert recording.drops.get("profiler_replaced", 0) == (1 if sys.version_info < (3, 12) else 0)
    assert len(named(recording, "outer")) == (2 if sys.version_info < (3, 12) else 4)
    seen = [entry.code for entry in profiler.getstats()]
    assert outer.__code__ in seen
    (test,) = named(recording, _here())
    assert len([row for row in named(recording, "outer") if recording.tree().parent[row] == test]) >= 2


def test_a_hook_put_back_by_the_program_goes_on() -> None:
    capture = FrameCapture()
    with capture:
        ours = sys.getprofile()
        sys.setprofile(lambda *_event: None)
        outer(lambda: None)
        sys.setprofile(ours)
        outer(lambda: None)
    assert len(named(capture.recording(), "outer")) == 1


def test_a_trace_function_sees_what_it_saw_before() -> None:
    lines: list[int] = []

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        if frame.f_code is outer.__code__:
            if event == "line":
                lines.append(frame.f_lineno)
            return trace
        return None

    capture = FrameCapture()
    before = sys.gettrace()
    with capture:
        sys.settrace(trace)
        outer(lambda: None)
        sys.settrace(before)
    assert lines == [outer.__code__.co_firstlineno + 1]
    assert len(named(capture.recording(), "outer")) == 1


def test_threads_have_the_function_of_threading_setprofile_too() -> None:
    seen: list[str] = []

    def users(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            seen.append(frame.f_code.co_name)

    threading.setprofile(users)
    try:
        capture = FrameCapture()
        with capture:
            thread = threading.Thread(target=outer, args=(int,))
            thread.start()
            thread.join()
        assert threading.getprofile() is users
    finally:
        threading.setprofile(None)
    assert seen[:2] == ["run", "outer"]
    assert len(named(capture.recording(), "outer")) == 1


def test_four_captures_at_once() -> None:
    captures = [FrameCapture() for _ in range(4)]
    for count, capture in enumerate(captures):
        capture.__enter__()
        for _ in range(count + 1):
            outer(lambda: None)
    for capture in captures:
        capture.__exit__()
        outer(lambda: None)
    counts = [len(named(capture.recording(), "outer")) for capture in captures]
    assert counts == [1 + 2 + 3 + 4, 2 + 3 + 4 + 1, 3 + 4 + 2, 4 + 3]


def test_a_child_of_a_fork_records_nothing_and_may_record() -> None:
    capture = FrameCapture()
    with capture:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                outer(lambda: None)
                is_clean = sys.getprofile() is None and threading.getprofile() is None
                own = record(lambda: outer(lambda: None))
                if is_clean and len(named(own, "outer")) == 1 and not own.drops:
                    status = 0
            finally:
                os.write(writing, bytes([status]))
                os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reading, 1) == b"\0"
        os.close(reading)
        os.close(writing)
    assert not named(capture.recording(), "outer")


def test_a_full_recording_drops_and_counts() -> None:
    cap_bytes = 1 << 20
    capture = FrameCapture(cap_bytes)
    calls = 60_000

    def program() -> None:
        for _ in range(calls):
            outer(int)

    with capture:
        program()
    recording = capture.recording()
    kept = len(named(recording, "outer"))
    assert 0 < kept < calls
    assert recording.drops["byte_cap"] + len(recording) >= calls
    assert len(recording) * 24 <= cap_bytes


def test_code_that_dies_leaves_its_address_to_other_names() -> None:
    def program() -> None:
        for n in range(200):
            namespace: dict[str, Callable[[], None]] = {}
            exec(f"def made_{n}(): pass", namespace)
            namespace[f"made_{n}"]()

    recording = record(program)
    made = [recording.event_name(row) for row in range(len(recording))]
    assert [name for name in made if name.startswith("made_")] == [f"made_{n}" for n in range(200)]


def test_deep_recursion_is_recorded_to_its_bound() -> None:
    limit = sys.getrecursionlimit()

    def descend(n: int) -> int:
        return 0 if n == 0 else 1 + descend(n - 1)

    sys.setrecursionlimit(20_000)
    try:
        recording = record(lambda: descend(15_000))
    finally:
        sys.setrecursionlimit(limit)
    assert len(named(recording, f"{_here()}.<locals>.descend")) == 15_001
    assert not recording.drops


def test_a_capture_that_failed_or_stopped_twice_leaves_no_hook() -> None:
    capture = FrameCapture()
    with capture:
        pass
    capture.source.stop()
    core.stop_python_frames(3)
    core.watch_python_threads([])
    core.watch_current_python_thread()
    assert sys.getprofile() is None
