"""Time that at least one of many intervals covers."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[np.int64]


def union_ns(start_ns: Numbers, end_ns: Numbers) -> int:
    """The length of the union of intervals, in any order; none ends before it starts."""
    order = np.argsort(start_ns, kind="stable")
    starts, ends = start_ns[order], np.maximum.accumulate(end_ns[order])
    covered_until = np.concatenate([starts[:1], ends[:-1]])
    return int(np.maximum(ends - np.maximum(starts, covered_until), 0).sum())
