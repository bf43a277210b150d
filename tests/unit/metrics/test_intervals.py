"""The union of intervals."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.metrics.intervals import union_ns

_TIMES = st.integers(-30, 30)
_INTERVALS = st.lists(st.tuples(_TIMES, _TIMES).map(lambda pair: (min(pair), max(pair))), max_size=20)


def union_of(intervals: list[tuple[int, int]]) -> int:
    starts = np.array([start for start, _ in intervals], dtype=np.int64)
    ends = np.array([end for _, end in intervals], dtype=np.int64)
    return union_ns(starts, ends)


@given(_INTERVALS)
def test_each_moment_counts_once(intervals: list[tuple[int, int]]) -> None:
    covered = {moment for start, end in intervals for moment in range(start, end)}
    assert union_of(intervals) == len(covered)


@given(_INTERVALS, st.randoms(use_true_random=False))
def test_order_does_not_matter(intervals: list[tuple[int, int]], random: Random) -> None:
    shuffled = sorted(intervals, key=lambda _: random.random())
    assert union_of(shuffled) == union_of(intervals)


def test_nothing_covers_nothing() -> None:
    assert union_of([]) == 0


def test_the_longest_times_there_are() -> None:
    far = (1 << 62) - 1
    assert union_of([(-far, far), (-far, 0), (0, far)]) == 2 * far
