"""`schedule()` is torch's, step for step; what makes no schedule is an error."""

from __future__ import annotations

import warnings

import pytest
import torch.profiler
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.profiler import InvalidSchedule, ProfilerAction, profile, schedule

lengths = st.integers(0, 4)


@given(lengths, lengths, st.integers(1, 4), lengths, lengths, st.integers(0, 1))
def test_actions_are_those_of_torch(
    wait: int, warmup: int, active: int, repeat: int, skip_first: int, skip_first_wait: int
) -> None:
    options = {
        "wait": wait,
        "warmup": warmup,
        "active": active,
        "repeat": repeat,
        "skip_first": skip_first,
        "skip_first_wait": skip_first_wait,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = torch.profiler.schedule(**options)
    ours = schedule(**options)
    for step in range(40):
        assert ours(step).name == theirs(step).name


def test_the_documented_cycle() -> None:
    actions = schedule(wait=1, warmup=1, active=2, repeat=1, skip_first=1)
    assert [actions(step).name for step in range(7)] == [
        "NONE",
        "NONE",
        "WARMUP",
        "RECORD",
        "RECORD_AND_SAVE",
        "NONE",
        "NONE",
    ]


@pytest.mark.parametrize("name", ["wait", "warmup", "active", "repeat", "skip_first"])
def test_a_length_out_of_range_is_an_error(name: str) -> None:
    lengths = {"wait": 0, "warmup": 0, "active": 1, name: -1}
    with pytest.raises(AssertionError, match=f"{name} must be at least"):
        schedule(**lengths)


def test_no_active_step_is_an_error() -> None:
    with pytest.raises(InvalidSchedule, match="active must be at least 1, not 0"):
        schedule(wait=1, warmup=1, active=0)


def test_a_step_before_the_first_is_an_error() -> None:
    with pytest.raises(AssertionError, match="numbered from 0, not -1"):
        schedule(wait=0, warmup=0, active=1)(-1)


def test_members_and_values_are_those_of_torch() -> None:
    theirs = {action.name: action.value for action in torch.profiler.ProfilerAction}
    ours = {action.name: action.value for action in ProfilerAction}
    assert {name: ours.get(name) for name in theirs} == theirs
    # Torch has it since 2.13.
    assert ours.keys() - theirs.keys() <= {"DEVICE_STOPPED"}


@pytest.mark.parametrize("answer", [ProfilerAction.DEVICE_STOPPED, "RECORD", None, 2])
def test_what_is_no_action_is_an_error(answer: object) -> None:
    with pytest.raises(ValueError, match="step 0"):
        profile(schedule=lambda _step: answer)
