"""Sums by group, in whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[np.int64]


def grouped_sums(
    keys: Sequence[Numbers], values: Sequence[Numbers]
) -> dict[tuple[int, ...], tuple[int, ...]]:
    """How many rows each group has and what the values of its rows add up to.

    Args:
        keys: columns that together name the group of a row; no number in them is below -1.
        values: columns to add up. Sums are exact up to 2**53.
    """
    sizes = [int(column.max(initial=-1)) + 2 for column in keys]
    group = np.zeros(len(keys[0]), dtype=np.int64)
    for column, size in zip(keys, sizes, strict=True):
        group = group * size + column + 1
    _groups, first_row, place = np.unique(group, return_index=True, return_inverse=True)
    place = place.reshape(-1)
    # Floats, as integers would wrap around where a broken file has times of centuries.
    columns = [np.bincount(place).tolist()]
    columns += [np.bincount(place, weights=column).tolist() for column in values]
    names = zip(*(column[first_row].tolist() for column in keys), strict=True)
    sums = zip(*columns, strict=True)
    return {name: tuple(round(value) for value in row) for name, row in zip(names, sums, strict=True)}
