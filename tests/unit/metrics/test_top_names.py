"""Top names: no series ever falls, nothing is lost, and there are never more names than places."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.metrics.top_names import NamedSeries, TopNames
from otel_torchprof.semconv_metrics import OTHER

Totals = dict[tuple[str, str], tuple[int, int]]
S = 1_000_000_000


@dataclass
class Program:
    """Sums that only grow."""

    totals: Totals = field(default_factory=dict)

    def works(self, name: str, busy: int, group: str = "forward") -> None:
        calls, time = self.totals.get((name, group), (0, 0))
        self.totals[name, group] = (calls + 1, time + busy)


def grown(
    series: list[NamedSeries[str]], before: dict[tuple[str, str], NamedSeries[str]]
) -> dict[str, tuple[int, int]]:
    """By group, what all series grew by, as a reader takes it: one with another start has begun anew."""
    by_group: dict[str, tuple[int, int]] = {}
    for one in series:
        old = before.get((one.name, one.group))
        base = old.values if old is not None and old.start_unix_ns == one.start_unix_ns else (0, 0)
        calls, time = by_group.get(one.group, (0, 0))
        by_group[one.group] = (calls + one.values[0] - base[0], time + one.values[1] - base[1])
    return {group: growth for group, growth in by_group.items() if any(growth)}


def named(series: list[NamedSeries[str]]) -> dict[str, tuple[int, ...]]:
    return {one.name: one.values for one in series}


def top_names(places: int = 4, **options: int) -> TopNames[str]:
    return TopNames(1, 1, places=places, **options)


_WORK = st.lists(
    st.tuples(
        st.sampled_from([*"abcdefghij", OTHER]),
        st.integers(0, 100),
        st.sampled_from(["forward", "backward"]),
    ),
    max_size=12,
)


@given(st.lists(st.tuples(_WORK, st.integers(0, 12 * S)), max_size=12), st.integers(0, 5), st.integers(0, 5))
def test_whatever_a_program_does(
    intervals: list[tuple[list[tuple[str, int, str]], int]], places: int, first: int
) -> None:
    top = top_names(places, first_places=min(first, places))
    program, now = Program(), 1
    before: dict[tuple[str, str], NamedSeries[str]] = {}
    for work, passed_ns in intervals:
        done: Totals = {}
        for name, busy, group in work:
            program.works(name, busy, group)
            calls, time = done.get(("", group), (0, 0))
            done["", group] = (calls + 1, time + busy)
        now += passed_ns
        series = top.collect(program.totals, now)
        # Nothing is lost or counted twice.
        assert grown(series, before) == {group: growth for (_name, group), growth in done.items()}
        # A name and group is one series, and there are not too many names.
        by_key = {(one.name, one.group): one for one in series}
        assert len(by_key) == len(series)
        assert len({one.name for one in series} - {OTHER}) <= places
        # No series falls: one that ends may begin anew, with a later start.
        for key, one in by_key.items():
            old = before.get(key, one)
            if old.start_unix_ns == one.start_unix_ns:
                assert all(new >= was for new, was in zip(one.values, old.values, strict=True))
            else:
                assert one.start_unix_ns > old.start_unix_ns
        assert {key for key in before if key[0] == OTHER} <= by_key.keys()
        # What is new began no later than it is seen, and not before what is in `other`.
        assert all(1 <= one.start_unix_ns <= now for one in series)
        before |= by_key


@given(
    st.lists(st.lists(st.tuples(st.sampled_from("abcdefghij"), st.integers(0, 100)), max_size=6), min_size=1),
    st.integers(1, 4),
)
def test_whatever_is_unnamed_was_never_twice_as_busy_as_what_is_named(
    seconds: list[list[tuple[str, int]]], places: int
) -> None:
    """Scraped every second; at the end long enough for names to get their places."""
    top, program, now = top_names(places), Program(), 1
    for work in seconds + [[]] * 20:
        for name, busy in work:
            program.works(name, busy)
        names = {one.name for one in top.collect(program.totals, now)} - {OTHER}
        now += S
    busy_of = {name: time for (name, _group), (_calls, time) in program.totals.items()}
    if len(names) == places:
        unnamed = [time for name, time in busy_of.items() if name not in names]
        assert max(unnamed, default=0) <= 2 * min(busy_of[name] for name in names)


def test_at_first_the_busiest_get_half_of_the_places() -> None:
    program = Program()
    for busy, name in enumerate("abcd", start=1):
        program.works(name, busy)
    assert named(top_names().collect(program.totals, 1)) == {"c": (1, 3), "d": (1, 4), OTHER: (2, 3)}


def test_a_collection_of_nothing_is_not_the_first() -> None:
    program, top = Program(), top_names()
    assert top.collect(program.totals, 1) == []
    program.works("a", 1)
    assert named(top.collect(program.totals, 2)) == {"a": (1, 1)}


def test_a_name_that_comes_later_gets_a_place_when_it_was_busy_twice() -> None:
    program, top = Program(), top_names(first_places=1)
    program.works("a", 1)
    top.collect(program.totals, 1)
    program.works("late", 50)
    assert named(top.collect(program.totals, 10 * S)) == {"a": (1, 1), OTHER: (1, 50)}
    program.works("late", 70)
    series = top.collect(program.totals, 20 * S)
    # It begins at zero, and what it did before stays where it was.
    assert named(series) == {"a": (1, 1), "late": (0, 0), OTHER: (2, 120)}
    program.works("late", 7)
    series = top.collect(program.totals, 30 * S)
    assert named(series) == {"a": (1, 1), "late": (1, 7), OTHER: (2, 120)}
    assert {one.name: one.start_unix_ns for one in series} == {"a": 1, "late": 20 * S, OTHER: 1}


def test_a_name_that_was_busy_once_gets_none() -> None:
    program, top = Program(), top_names(first_places=0)
    for round_, name in enumerate("abcdefgh"):
        program.works(name, 100)
        series = top.collect(program.totals, round_ * 10 * S)
        assert set(named(series)) == {OTHER}


def test_a_scrape_right_after_another_does_not_count_as_one_more() -> None:
    program, top = Program(), top_names(first_places=0)
    for round_ in range(100):
        program.works("a", 1)
        series = top.collect(program.totals, S + round_)
    assert set(named(series)) == {OTHER}


def test_the_least_busy_gives_its_place_to_one_twice_as_busy() -> None:
    program, top = Program(), top_names(2, first_places=2)
    program.works("a", 5)
    program.works("b", 3)
    top.collect(program.totals, 1)
    program.works("busier", 6)
    assert named(top.collect(program.totals, 10 * S)) == {"a": (1, 5), "b": (1, 3), OTHER: (1, 6)}
    program.works("busier", 1)
    # What it was until now goes out once more.
    assert named(top.collect(program.totals, 20 * S)) == {"a": (1, 5), "b": (1, 3), OTHER: (2, 7)}
    program.works("b", 1)
    program.works("busier", 4)
    series = top.collect(program.totals, 21 * S)
    assert named(series) == {"a": (1, 5), "busier": (1, 4), OTHER: (3, 8)}
    assert {one.name: one.start_unix_ns for one in series} == {"a": 1, "busier": 20 * S, OTHER: 1}


def test_a_name_that_gets_its_place_back_begins_anew() -> None:
    program, top = Program(), top_names(1, first_places=1)
    program.works("a", 3)
    top.collect(program.totals, 1)
    program.works("b", 7)
    top.collect(program.totals, 10 * S)
    program.works("a", 12)  # 15 in all
    assert named(top.collect(program.totals, 20 * S)) == {"b": (0, 0), OTHER: (2, 19)}
    program.works("a", 1)
    program.works("b", 2)
    series = top.collect(program.totals, 21 * S)
    assert [(one.name, one.values, one.start_unix_ns) for one in series] == [
        ("a", (1, 1), 20 * S),
        (OTHER, (3, 21), 1),
    ]


def test_scraped_every_second_a_program_keeps_names_for_what_comes_late() -> None:
    """Places that small names took while nothing else ran are not lost to a heavy one."""
    program, top = Program(), top_names(40)
    for second in range(300):
        for name in range(60):
            program.works(f"small {name}", 1 + (name + second) % 7)
        top.collect(program.totals, second * S)
    for second in range(300, 320):
        program.works("heavy", 10_000)
        program.works("small 1", 1)
        series = top.collect(program.totals, second * S)
    assert "heavy" in named(series)
    assert len(named(series)) == 40 + 1


def test_a_group_that_a_name_gets_later_begins_at_zero() -> None:
    program, top = Program(), top_names(first_places=4)
    program.works("a", 1)
    top.collect(program.totals, 1)
    program.works("a", 5, "backward")
    assert [one.values for one in top.collect(program.totals, 2)] == [(1, 1), (1, 5)]


def test_an_operator_called_other_is_with_the_others() -> None:
    program, top = Program(), top_names(1, first_places=1)
    program.works(OTHER, 100)
    program.works("a", 1)
    program.works("b", 0)
    assert named(top.collect(program.totals, 1)) == {"a": (1, 1), OTHER: (2, 100)}


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_ties_are_settled_by_name(order: str) -> None:
    program = Program()
    for name in order:
        program.works(name, 5)
    assert named(top_names(first_places=1).collect(program.totals, 1)) == {"a": (1, 5), OTHER: (1, 5)}
