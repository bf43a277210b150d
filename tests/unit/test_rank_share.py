"""Which ranks record which windows."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.live.rank_share import RankShare, SharedSchedule, parse_rank_share
from otel_torchprof.recorder.schedule import CycleSchedule, ProfilerAction
from otel_torchprof.run_identity import RunIdentity


def recorders(share: RankShare, world_size: int, window: int, restart: int = 0) -> list[int]:
    ranks = range(world_size)
    return [
        rank
        for rank in ranks
        if share.includes(RunIdentity("run", restart, rank=rank, world_size=world_size), window)
    ]


def test_by_default_rank_0_records_and_another_in_turn() -> None:
    assert [recorders(RankShare(), 4, window) for window in range(4)] == [[0, 1], [0, 2], [0, 3], [0, 1]]
    assert recorders(RankShare(), 4, 0, restart=1) == [0, 2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("all", [[0, 1, 2, 3], [0, 1, 2, 3]]),
        ("2", [[2], [2]]),
        ("1,2,rotating", [[0, 1, 2], [1, 2, 3]]),
        ("rotating", [[0], [1]]),
        ("9", [[], []]),
    ],
)
def test_ranks_are_those_that_are_named(text: str, expected: list[list[int]]) -> None:
    assert [recorders(parse_rank_share(text), 4, window) for window in range(2)] == expected


@pytest.mark.parametrize("text", ["7", "rotating", "0,rotating", "all"])
def test_a_program_of_one_process_always_records(text: str) -> None:
    assert recorders(parse_rank_share(text), 1, 5) == [0]


@given(
    always=st.frozensets(st.integers(0, 12), max_size=6),
    world_size=st.integers(2, 10),
    first=st.integers(0, 50),
    restart=st.integers(0, 3),
)
def test_each_other_rank_has_one_turn_a_round(
    always: frozenset[int], world_size: int, first: int, restart: int
) -> None:
    share = RankShare(always, rotating=True)
    others = set(range(world_size)) - always
    turns = Counter[int]()
    for window in range(first, first + len(others)):
        found = set(recorders(share, world_size, window, restart))
        assert always & set(range(world_size)) <= found
        turns.update(found - always)
    assert turns == Counter(others)


def test_a_window_is_recorded_whole_or_not_at_all() -> None:
    asked: list[int] = []

    def is_mine(window: int) -> bool:
        asked.append(window)
        return window != 1

    schedule = SharedSchedule(CycleSchedule(wait=1, warmup=1, active=2), is_mine)
    none, warmup, record, save = ProfilerAction
    recorded, left_out = [none, warmup, record, save], [none, warmup, none, none]
    assert [schedule.action(step) for step in range(12)] == [*recorded, *left_out, *recorded]
    assert asked == [0, 1, 2]


def test_windows_that_follow_each_other_are_several() -> None:
    schedule = SharedSchedule(CycleSchedule(active=1), lambda window: window % 2 == 0)
    assert [schedule.action(step).records for step in range(4)] == [True, False, True, False]
