"""Schedules: torch's meaning of the cycles, and the time-based default."""

from __future__ import annotations

import itertools
from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.recorder.schedule import CycleSchedule, IntervalSchedule, ProfilerAction, parse_schedule

NONE, WARMUP, RECORD, SAVE = ProfilerAction

lengths = st.fixed_dictionaries(
    {
        "skip_first": st.integers(0, 7),
        "wait": st.integers(0, 5),
        "warmup": st.integers(0, 4),
        "active": st.integers(1, 5),
        "repeat": st.integers(0, 4),
        "skip_first_wait": st.integers(0, 1),
    }
)


@given(lengths)
@pytest.mark.filterwarnings("ignore:Profiler won't be using warmup")
def test_cycles_mean_what_torch_means(keys: dict[str, int]) -> None:
    theirs = torch.profiler.schedule(**keys)
    ours = parse_schedule(",".join(f"{key}={value}" for key, value in keys.items()))
    assert [int(ours.action(step)) for step in range(60)] == [theirs(step).value for step in range(60)]


@given(lengths, st.randoms(use_true_random=False))
def test_keys_are_read_in_any_order_and_with_spaces(keys: dict[str, int], random: Random) -> None:
    parts = [f" {key} = {value} " for key, value in keys.items()]
    random.shuffle(parts)
    assert parse_schedule(",".join(parts)) == CycleSchedule(**keys)


def test_left_out_keys_have_torchs_defaults() -> None:
    assert parse_schedule("active=2") == CycleSchedule(
        skip_first=0, wait=0, warmup=0, active=2, repeat=0, skip_first_wait=0
    )


def test_the_schedule_of_the_documentation() -> None:
    schedule = parse_schedule("skip_first=5,wait=0,warmup=1,active=3,repeat=1")
    actions = [schedule.action(step) for step in range(11)]
    assert actions == [NONE] * 5 + [WARMUP, RECORD, RECORD, SAVE, NONE, NONE]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no KEY=NUMBER in it"),
        (",", "no KEY=NUMBER in it"),
        ("5", "'5' is not KEY=NUMBER"),
        ("skip=5", "unknown key 'skip', known are skip_first, wait, warmup, active, repeat, skip_first_wait"),
        ("active=x", "active must be a whole number, not 'x'"),
        ("active=-1", "active must be a whole number, not '-1'"),
        ("active=1.5", "active must be a whole number, not '1.5'"),
        ("active=²", "active must be a whole number, not '²'"),
        ("active=", "active must be a whole number, not ''"),
        ("active=0", "active must be at least 1, not 0"),
        ("active=1,active=2", "active is given twice"),
    ],
)
def test_a_bad_schedule_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared whole
        parse_schedule(text)
    assert str(caught.value) == message


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_by_default_the_third_step_and_then_one_an_interval() -> None:
    clock = Clock()
    schedule = IntervalSchedule(600.0, clock)
    recorded = []
    for step in range(30):
        if schedule.action(step) is SAVE:
            recorded.append((step, clock.now_s))
        clock.now_s += 100.0
    assert recorded == [(2, 1200.0), (8, 1800.0), (14, 2400.0), (20, 3000.0), (26, 3600.0)]


@given(st.floats(0.001, 1e6), st.lists(st.floats(0, 1e6), max_size=200))
def test_recorded_steps_are_an_interval_apart(interval_s: float, durations_s: list[float]) -> None:
    clock = Clock()
    schedule = IntervalSchedule(interval_s, clock)
    starts_s = []
    for step, duration_s in enumerate(durations_s):
        action = schedule.action(step)
        assert action in (NONE, SAVE)
        if action is SAVE:
            starts_s.append(clock.now_s)
        clock.now_s += duration_s
    assert all(later - earlier >= interval_s * 0.999 for earlier, later in itertools.pairwise(starts_s))
    assert len(starts_s) >= (1 if len(durations_s) > 2 else 0)
