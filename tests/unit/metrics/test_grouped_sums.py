"""Sums by group against a dictionary."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.metrics.grouped_sums import grouped_sums

_ROWS = st.lists(st.tuples(st.integers(-1, 5), st.integers(-1, 3), st.integers(0, 1 << 40)), max_size=30)


@given(_ROWS)
def test_each_row_is_in_one_sum(rows: list[tuple[int, int, int]]) -> None:
    expected: dict[tuple[int, ...], tuple[int, ...]] = {}
    for one, other, value in rows:
        count, total = expected.get((one, other), (0, 0))
        expected[one, other] = (count + 1, total + value)
    columns = [np.array([row[place] for row in rows], dtype=np.int64) for place in range(3)]
    assert grouped_sums(columns[:2], columns[2:]) == expected


def test_sums_beyond_64_bits_do_not_wrap() -> None:
    century = np.full(4, (1 << 63) - 1, dtype=np.int64)
    (_count, total) = grouped_sums([np.zeros(4, dtype=np.int64)], [century])[0,]
    assert total == 1 << 65
