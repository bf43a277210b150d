"""Windows: which steps are recorded together, what becomes of a failure, of an exit and of a fork."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.schedule import parse_schedule
from otel_torchprof.recorder.step_details import (
    NO_DETAILS,
    STEP_HAS_NUMBER,
    STEP_IN_PARENT,
    STEP_PARTIAL,
    StepDetails,
)
from otel_torchprof.recorder.window import StepContext, Window, WindowController

if TYPE_CHECKING:
    from otel_torchprof.recording import Recording


class FakeCapture:
    """Writes down what it is told."""

    recorded = 0

    def __init__(self, path: Path | None, *, fails: Exception | None = None) -> None:
        self.path = path
        self.fails = fails
        self.calls: list[object] = []
        self.steps: list[StepDetails] = []

    def start(self) -> None:
        if self.fails is not None:
            raise self.fails
        self.calls.append("start")

    def add_context(self, context: bytes, trace_flags: int, *, is_root: bool, links: bytes) -> None: ...

    def begin_step(self, number: int = -1, details: StepDetails = NO_DETAILS) -> None:
        self.calls.append(number)
        self.steps.append(details)

    def end_step(self) -> None:
        self.calls.append("end")

    def halt(self) -> None:
        self.calls.append("halt")

    def stop(self) -> Recording:
        raise AssertionError("the training thread must not make the recording")


class Fixture:
    def __init__(self, schedule: str, **options: object) -> None:
        self.captures: list[FakeCapture] = []
        self.windows: list[Window] = []
        self.ready = 0
        self.failure: Exception | None = None
        self.context = StepContext()
        self.controller = WindowController(
            parse_schedule(schedule),
            open_capture=self.open_capture,
            place_step=lambda number: self.context,
            deliver=self.windows.append,
            make_ready=self.make_ready,
            **options,  # type: ignore[arg-type]
        )

    def open_capture(self, path: Path | None) -> FakeCapture:
        self.captures.append(FakeCapture(path, fails=self.failure))
        return self.captures[-1]

    def make_ready(self) -> None:
        self.ready += 1

    def steps(self, *numbers: int) -> None:
        for number in numbers:
            self.controller.on_step(number, b"")


def test_a_window_holds_the_steps_of_a_cycle() -> None:
    fixture = Fixture("skip_first=2,wait=0,warmup=0,active=3,repeat=1")
    fixture.controller.begin()
    fixture.steps(1, 2, 3, 4)
    assert fixture.windows == []
    fixture.steps(5, 6, 7)
    (window,) = fixture.windows
    assert (window.steps, window.partial) == ([2, 3, 4], False)
    assert fixture.captures[0].calls == ["start", 2, 3, 4, "end", "halt"]
    assert [step.flags for step in fixture.captures[0].steps] == [STEP_HAS_NUMBER] * 3
    assert len(fixture.captures) == 1


def test_what_was_recorded_adds_up_over_windows_and_the_one_under_way() -> None:
    fixture = Fixture("active=2")
    assert fixture.controller.recorded == 0
    fixture.controller.begin()
    fixture.captures[0].recorded = 10
    assert fixture.controller.recorded == 10
    fixture.steps(1, 2)
    fixture.captures[1].recorded = 7
    assert fixture.controller.recorded == 17
    fixture.controller.close(1.0)
    fixture.controller.start_over(parse_schedule("active=1"))
    assert fixture.controller.recorded == 17


def test_cycles_that_follow_each_other_are_windows_of_their_own() -> None:
    fixture = Fixture("active=2")
    fixture.controller.begin()
    fixture.steps(1, 2, 3, 4)
    assert [window.steps for window in fixture.windows] == [[0, 1], [2, 3]]
    assert [window.partial for window in fixture.windows] == [True, False]
    assert fixture.captures[0].steps[0].flags == STEP_HAS_NUMBER | STEP_PARTIAL


def test_the_schedule_counts_from_the_step_in_which_recording_begins() -> None:
    fixture = Fixture("skip_first=1,active=2,repeat=1")
    fixture.controller.begin(40)
    assert fixture.ready == 0
    fixture.steps(41, 42, 43)
    assert [window.steps for window in fixture.windows] == [[41, 42]]


def test_a_count_that_jumps_over_the_last_step_ends_the_window() -> None:
    fixture = Fixture("skip_first=1,active=2,repeat=1")
    fixture.steps(1, 4, 5)
    assert [window.steps for window in fixture.windows] == [[1]]


def test_a_boundary_overtaken_by_another_thread_is_left_out() -> None:
    fixture = Fixture("active=9")
    fixture.steps(2, 1, 2, 3)
    fixture.controller.close(1.0)
    assert fixture.windows[0].steps == [2, 3]


def test_exit_hands_on_the_window_under_way_as_partial() -> None:
    fixture = Fixture("active=3")
    fixture.steps(1)
    fixture.controller.close(1.0)
    fixture.controller.close(1.0)
    fixture.steps(2, 3)
    (window,) = fixture.windows
    assert (window.steps, window.partial) == ([1], True)
    assert fixture.captures[0].calls == ["start", 1, "halt"]  # the native side ends the step as unfinished
    assert len(fixture.captures) == 1


def test_exit_without_a_window_hands_on_nothing() -> None:
    fixture = Fixture("skip_first=9,active=1")
    fixture.steps(1)
    fixture.controller.close(1.0)
    assert fixture.windows == []


def test_exit_does_not_wait_for_ever_for_a_boundary() -> None:
    fixture = Fixture("active=1")
    entered, leave = threading.Event(), threading.Event()

    def hang(window: Window) -> None:
        entered.set()
        assert leave.wait(60)

    fixture.controller._deliver = hang
    fixture.steps(1)
    thread = threading.Thread(target=fixture.steps, args=(2,))
    thread.start()
    assert entered.wait(60)
    fixture.controller.close(0.0)
    leave.set()
    thread.join()
    assert len(fixture.captures) == 2


def test_context_and_links_reach_the_capture() -> None:
    fixture = Fixture("skip_first=1,active=2")
    fixture.context = StepContext(b"c" * 24, trace_flags=1, in_parent=True)
    fixture.controller.on_step(1, b"l" * 48)
    fixture.context = StepContext(sampled=False)
    fixture.steps(2, 3)
    assert fixture.captures[0].steps == [
        StepDetails(0, STEP_HAS_NUMBER | STEP_IN_PARENT, b"c" * 24, 1, b"l" * 48),
        StepDetails(0, STEP_HAS_NUMBER, b"", 0, b""),
    ]
    assert fixture.windows[0].unsampled_steps == {2}


def test_a_capture_that_cannot_start_is_counted_and_tried_again() -> None:
    fixture = Fixture("active=1")
    fixture.failure = RuntimeError("no bridge")
    before = failures.count("a step was not recorded")
    fixture.steps(1, 2)
    assert failures.count("a step was not recorded") == before + 2
    assert fixture.windows == []
    fixture.failure = None
    fixture.steps(3, 4)
    assert [window.steps for window in fixture.windows] == [[3]]


def test_windows_are_recorded_into_files(tmp_path: Path) -> None:
    fixture = Fixture("active=1", recording_path=lambda step: tmp_path / f"{step}.tprof")
    fixture.steps(1, 2, 3)
    assert [capture.path for capture in fixture.captures] == [
        tmp_path / f"{step}.tprof" for step in (1, 2, 3)
    ]


NOT_SAVED = "a recording was not saved to a file in OTEL_PYTHON_TORCHPROF_RECORDING_DIR"


def test_without_a_usable_directory_windows_are_recorded_into_memory() -> None:
    def no_path(step: int) -> Path:
        raise PermissionError("read-only")

    fixture = Fixture("active=1", recording_path=no_path)
    before = failures.count(NOT_SAVED)
    fixture.steps(1, 2)
    assert fixture.captures[0].path is None
    assert [window.steps for window in fixture.windows] == [[1]]
    assert failures.count(NOT_SAVED) == before + 2


def test_slow_preparations_are_made_once_and_before_the_first_window() -> None:
    fixture = Fixture("skip_first=3,active=1,repeat=1")
    fixture.controller.begin()
    assert fixture.ready == 0  # a program that never trains pays nothing
    fixture.steps(1)
    assert fixture.ready == 1
    fixture.steps(2, 3, 4, 5)
    assert fixture.ready == 1


def test_preparations_that_fail_do_not_raise() -> None:
    fixture = Fixture("skip_first=3,active=1,repeat=1")

    def fail() -> None:
        raise OSError("no compiler")

    fixture.controller._make_ready = fail
    fixture.steps(1, 2, 3, 4)
    assert [window.steps for window in fixture.windows] == [[3]]


@pytest.mark.parametrize("recording", [False, True])
def test_a_forked_child_leaves_the_parents_window_alone(recording: bool) -> None:
    fixture = Fixture("active=3" if recording else "skip_first=9,active=1")
    fixture.steps(1, 2)
    fixture.controller.start_over(parse_schedule("active=2,repeat=1"))
    fixture.steps(1, 2)
    (window,) = fixture.windows
    assert window.steps == [1]
    assert window.capture is fixture.captures[-1]
    assert len(fixture.captures) == (2 if recording else 1)


def test_a_boundary_that_interrupts_the_handling_of_another_does_not_hang() -> None:
    fixture = Fixture("skip_first=3,active=1,repeat=1")
    fixture.controller._make_ready = lambda: fixture.steps(2)
    training = threading.Thread(target=fixture.steps, args=(1, 3, 4), daemon=True)
    training.start()
    training.join(30)
    assert not training.is_alive()
    assert [window.steps for window in fixture.windows] == [[3]]
