"""Merging equal stacks, against a walk in plain Python."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.analysis.merged_stacks import merge_stacks, nearest


@st.composite
def forests(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Parents, each a smaller row or -1, and names."""
    rows = draw(st.integers(0, 30))
    parents = [draw(st.integers(-1, row - 1)) for row in range(rows)]
    return parents, draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))


def stack_of(row: int, parents: list[int], names: list[int]) -> tuple[int, ...]:
    stack: list[int] = []
    while row >= 0:
        stack.append(names[row])
        row = parents[row]
    return tuple(reversed(stack))


@given(forests(), st.integers(0, 5))
def test_a_node_stands_for_all_rows_with_its_stack(
    forest: tuple[list[int], list[int]], max_depth: int
) -> None:
    parents, names = forest
    rows = np.arange(len(parents))
    merged = merge_stacks(np.array(parents, dtype=np.int64), np.array(names, dtype=np.int64), rows, max_depth)
    stacks = [stack_of(row, parents, names)[: max_depth + 1] for row in range(len(parents))]
    nodes = merged.parent.tolist(), merged.name.tolist()
    assert [stack_of(node, *nodes) for node in merged.node_of_row.tolist()] == stacks
    assert len(merged) == len(set(stacks))
    assert merged.sum_of_rows(np.ones(len(parents), dtype=np.int64)).tolist() == [
        Counter(stacks)[stack_of(node, *nodes)] for node in range(len(merged))
    ]
    below = merged.sum_of_subtrees(merged.sum_of_rows(rows))
    assert below[merged.parent < 0].sum() == rows.sum()


@given(forests(), st.data())
def test_nearest_is_the_first_wanted_one_outwards(
    forest: tuple[list[int], list[int]], data: st.DataObject
) -> None:
    parents, _names = forest
    wanted = data.draw(st.lists(st.booleans(), min_size=len(parents), max_size=len(parents)))
    expected = []
    for start in range(len(parents)):
        row = start
        while row >= 0 and not wanted[row]:
            row = parents[row]
        expected.append(row)
    found = nearest(np.array(parents, dtype=np.int64), np.array(wanted, dtype=bool))
    assert found.tolist() == expected


@given(forests(), st.data())
def test_rows_not_asked_for_are_left_out_of_the_stacks(
    forest: tuple[list[int], list[int]], data: st.DataObject
) -> None:
    parents, names = forest
    asked = [row for row in range(len(parents)) if data.draw(st.booleans())]
    merged = merge_stacks(
        np.array(parents, dtype=np.int64),
        np.array(names, dtype=np.int64),
        np.array(asked, dtype=np.int64),
        99,
    )
    nodes = merged.parent.tolist(), merged.name.tolist()
    for row in range(len(parents)):
        stack = []
        above = row
        while above >= 0:
            stack += [names[above]] if above in asked else []
            above = parents[above]
        node = int(merged.node_of_row[row])
        assert (node >= 0) == (row in asked)
        if node >= 0:
            assert stack_of(node, *nodes) == tuple(reversed(stack))
