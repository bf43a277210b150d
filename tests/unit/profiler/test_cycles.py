"""The state machine: each cycle begins and is delivered once, whatever the schedule and the program do."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.profiling.actions import ProfilerAction, schedule
from otel_torchprof.profiling.cycles import CycleMachine

NONE, WARMUP = ProfilerAction.NONE, ProfilerAction.WARMUP
RECORD, SAVE = ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE


class Work:
    """Writes down what it is told to do."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.fails: set[str] = set()

    def _do(self, what: str) -> None:
        self.done.append(what)
        if what in self.fails:
            raise ZeroDivisionError(what)

    def prepare(self) -> None:
        self._do("prepare")

    def start(self) -> None:
        self._do("start")

    def begin_step(self, number: int) -> None:
        self._do(str(number))

    def stop(self, *, is_partial: bool) -> None:
        self._do("cut off" if is_partial else "stop")

    def abandon(self) -> None:
        self._do("abandon")

    def deliver(self) -> None:
        self._do("deliver")


def run(actions: Sequence[ProfilerAction], work: Work | None = None) -> list[str]:
    """What is done when the program makes as many steps as there are actions, and ends in the last."""
    work = work or Work()
    machine = CycleMachine(lambda step: actions[step], work)
    machine.begin()
    for _ in actions[1:]:
        machine.step()
    machine.end()
    return work.done


def test_a_cycle_is_made_ready_recorded_and_delivered() -> None:
    assert run([NONE, WARMUP, RECORD, SAVE, NONE]) == ["prepare", "start", "2", "3", "stop", "deliver"]


def test_cycles_follow_without_a_gap() -> None:
    assert run([SAVE, SAVE, NONE]) == [
        *("prepare", "start", "0", "stop", "deliver"),
        *("prepare", "start", "1", "stop", "deliver"),
    ]


def test_the_end_cuts_a_cycle_off_and_delivers_it() -> None:
    assert run([WARMUP, RECORD]) == ["prepare", "start", "1", "cut off", "deliver"]


@pytest.mark.parametrize("actions", [[NONE], [WARMUP], [NONE, NONE], [NONE, WARMUP]])
def test_without_a_recorded_step_nothing_is_delivered(actions: list[ProfilerAction]) -> None:
    assert not {"start", "deliver"} & set(run(actions))


@pytest.mark.parametrize(
    ("actions", "said"),
    [([RECORD, NONE], "RECORD followed by NONE"), ([RECORD, WARMUP], "RECORD followed by WARMUP")],
)
def test_a_schedule_that_forgets_to_save_is_warned_of_and_delivers_nothing(
    actions: list[ProfilerAction], said: str
) -> None:
    with pytest.warns(UserWarning, match=said):
        done = run(actions)
    assert done[:4] == ["prepare", "start", "0", "cut off"]
    assert "deliver" not in done


def test_warming_up_for_nothing_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="WARMUP followed by NONE"):
        assert run([WARMUP, NONE]) == ["prepare"]


def test_the_next_cycle_begins_whatever_the_delivery_raises() -> None:
    work = Work()
    work.fails = {"deliver"}
    machine = CycleMachine(lambda _step: SAVE, work)
    machine.begin()
    with pytest.raises(ZeroDivisionError):
        machine.step()
    assert work.done == ["prepare", "start", "0", "stop", "deliver", "prepare", "start", "1"]
    work.fails = set()
    machine.step()
    assert work.done[8:10] == ["stop", "deliver"]


def test_a_cycle_that_cannot_be_stopped_is_given_up_and_the_next_begins() -> None:
    work = Work()
    work.fails = {"stop"}
    machine = CycleMachine(lambda _step: SAVE, work)
    machine.begin()
    with pytest.raises(ZeroDivisionError):
        machine.step()
    assert work.done == ["prepare", "start", "0", "stop", "abandon", "prepare", "start", "1"]


def test_the_end_can_be_tried_again() -> None:
    work = Work()
    work.fails = {"cut off"}
    machine = CycleMachine(lambda _step: RECORD, work)
    machine.begin()
    with pytest.raises(ZeroDivisionError):
        machine.end()
    work.fails = set()
    machine.end()
    assert work.done == ["prepare", "start", "0", "cut off", "cut off", "deliver"]


def test_a_wrong_answer_of_the_schedule_changes_nothing() -> None:
    work = Work()
    answers = {0: RECORD, 1: ProfilerAction.DEVICE_STOPPED}
    machine = CycleMachine(answers.__getitem__, work)
    machine.begin()
    with pytest.raises(ValueError, match="step 1"):
        machine.step()
    assert (machine.step_number, machine.action, work.done) == (0, RECORD, ["prepare", "start", "0"])


@given(
    wait=st.integers(0, 3),
    warmup=st.integers(0, 2),
    active=st.integers(1, 3),
    repeat=st.integers(0, 3),
    steps=st.integers(0, 30),
)
def test_every_complete_cycle_is_delivered_once(
    wait: int, warmup: int, active: int, repeat: int, steps: int
) -> None:
    actions = schedule(wait=wait, warmup=warmup, active=active, repeat=repeat)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = run([actions(step) for step in range(steps + 1)])
    complete = steps // (wait + warmup + active)
    assert done.count("stop") == (min(complete, repeat) if repeat else complete)
    assert done.count("deliver") == done.count("start") == done.count("stop") + done.count("cut off")
    recorded = [int(what) for what in done if what.isdigit()]
    assert recorded == [step for step in range(steps + 1) if actions(step).records]
