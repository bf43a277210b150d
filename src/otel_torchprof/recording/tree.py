"""Who encloses whom, and what each event did itself. All functions are pure; rows name events."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt

from otel_torchprof._native import core

NO_PARENT = -1


class Tree:
    """Parents and self times of the events of one recording."""

    def __init__(self, native: core.Tree) -> None:
        self._native = native

    @property
    def native(self) -> core.Tree:
        """The native tree, for native code that takes one."""
        return self._native

    def __len__(self) -> int:
        return len(self.parent)

    @cached_property
    def parent(self) -> npt.NDArray[np.int64]:
        """Row of the innermost enclosing event on the same track, smaller than the event's; -1 = none."""
        return self._native.parent

    @cached_property
    def self_ns(self) -> npt.NDArray[np.int64]:
        """Duration minus what synchronous children cover of it, in ns; never negative."""
        return self._native.self_ns

    def roots(self) -> npt.NDArray[np.int64]:
        """Rows without a parent, ascending."""
        return np.flatnonzero(self.parent == NO_PARENT)

    def children(self, row: int) -> npt.NDArray[np.int64]:
        """Rows whose parent is `row`, ascending."""
        if not 0 <= row < len(self):
            raise IndexError(f"no event {row} among {len(self)}")
        begin, end = self._child_bounds[row : row + 2]
        return self._rows_by_parent[begin:end]

    def ancestors(self, row: int) -> Iterator[int]:
        """Rows that enclose `row`, from its parent outwards."""
        parent = int(self.parent[row])
        while parent != NO_PARENT:
            yield parent
            parent = int(self.parent[parent])

    @cached_property
    def _rows_by_parent(self) -> npt.NDArray[np.int64]:
        """Rows with a parent, grouped by it."""
        by_parent = np.argsort(self.parent, kind="stable")
        return by_parent[np.count_nonzero(self.parent == NO_PARENT) :]

    @cached_property
    def _child_bounds(self) -> npt.NDArray[np.int64]:
        """Where the children of each row begin in `_rows_by_parent`; one more than there are rows."""
        counts = np.bincount(self.parent[self._rows_by_parent], minlength=len(self))
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])
