"""The tree of distinct stacks: what each event and its callers are called, equal paths merged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

NO_NODE = -1


@dataclass(frozen=True, eq=False)
class MergedStacks:
    """Nodes in order of their depth, so that a parent comes before its children."""

    node_of_row: Numbers  # NO_NODE for rows that were not asked for
    parent: Numbers  # NO_NODE = outermost
    name: Numbers
    first_row: Numbers  # an event of the node
    level_bounds: list[int]  # where each depth begins in the other columns, and their length

    def __len__(self) -> int:
        return len(self.parent)

    def sum_of_rows(self, values: Numbers, node_of_row: Numbers | None = None) -> Numbers:
        """For each node the sum over its own events.

        Args:
            values: by row.
            node_of_row: the node of each row, where it is not the one that it was merged into.
        """
        node = self.node_of_row if node_of_row is None else node_of_row
        sums = np.zeros(len(self), dtype=np.int64)
        rows = np.flatnonzero(node != NO_NODE)
        np.add.at(sums, node[rows], values[rows])
        return sums

    def sum_of_subtrees(self, values: Numbers) -> Numbers:
        """For each node the sum over itself and all below it; `values` is by node."""
        sums: Numbers = values.copy()
        levels = list(zip(self.level_bounds[1:], self.level_bounds[2:], strict=False))
        for begin, end in reversed(levels):
            np.add.at(sums, self.parent[begin:end], sums[begin:end])
        return sums


def merge_stacks(parent_row: Numbers, name_of_row: Numbers, rows: Numbers, max_depth: int) -> MergedStacks:
    """Merges level by level, so that each level is a few array operations.

    Args:
        parent_row: of each row the row that encloses it, a smaller one, or -1.
        name_of_row: of each row a number that is equal where names are.
        rows: the rows to merge; what encloses them and is not among them is left out of their stacks.
        max_depth: rows deeper than this count for the one that encloses them at this depth.
    """
    node_of_row = np.full(len(parent_row), NO_NODE, dtype=np.int64)
    names = int(name_of_row.max(initial=0)) + 1
    columns: list[tuple[Numbers, Numbers, Numbers]] = []
    bounds = [0]
    parent_row = _parents_among(rows, parent_row)
    depth = depths(parent_row)
    for level in _levels(depth, rows[depth[rows] <= max_depth]):
        above = parent_row[level]
        parent_node = np.where(above >= 0, node_of_row[above], NO_NODE)
        keys = (parent_node + 1) * names + name_of_row[level]
        distinct, first, place = np.unique(keys, return_index=True, return_inverse=True)
        node_of_row[level] = bounds[-1] + place.reshape(-1)
        columns.append((parent_node[first], name_of_row[level][first], level[first]))
        bounds.append(bounds[-1] + len(distinct))
    deep = rows[depth[rows] > max_depth]
    if len(deep):
        node_of_row[deep] = node_of_row[nearest(parent_row, depth <= max_depth)[deep]]
    empty = np.empty(0, dtype=np.int64)
    parent, name, first_row = (
        np.concatenate([empty, *(column[index] for column in columns)]) for index in range(3)
    )
    return MergedStacks(node_of_row, parent, name, first_row, bounds)


def _parents_among(rows: Numbers, parent: Numbers) -> Numbers:
    """The nearest ancestors that are among `rows`."""
    wanted = np.zeros(len(parent), dtype=bool)
    wanted[rows] = True
    return parent if wanted.all() else np.where(parent < 0, -1, nearest(parent, wanted)[parent])


def depths(parent: Numbers) -> Numbers:
    """How many enclose each; `parent` is -1 for the outermost."""
    depth = np.zeros(len(parent), dtype=np.int64)
    # Doubling: after n rounds each knows its depth among 2**n ancestors.
    jump = parent.copy()
    depth[jump >= 0] = 1
    while (inner := np.flatnonzero(jump >= 0)).size:
        depth[inner] += depth[jump[inner]]
        jump[inner] = jump[jump[inner]]
    return depth


def nearest(parent: Numbers, wanted: npt.NDArray[np.bool_]) -> Numbers:
    """Itself where wanted, else the nearest wanted ancestor; -1 = none."""
    # One more entry, which stands for no parent at all and is its own ancestor.
    none = len(parent)
    jump = np.append(np.where(wanted, np.arange(none), np.where(parent < 0, none, parent)), none)
    while not np.array_equal(further := jump[jump], jump):
        jump = further
    return np.where(jump[:-1] == none, -1, jump[:-1])


def _levels(depth: Numbers, rows: Numbers) -> Iterator[Numbers]:
    """The rows by their depth, outermost first."""
    order = rows[np.argsort(depth[rows], kind="stable")]
    if len(order):
        yield from np.split(order, np.flatnonzero(np.diff(depth[order])) + 1)
