"""Numbers out of fields that may hold anything."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def to_int(value: object, default: int, low: int = -(1 << 63), high: int = (1 << 63) - 1) -> int:
    """An integer written as one, as text, in hexadecimal, or as a whole decimal; else `default`."""
    if isinstance(value, bool) or value is None:
        return default
    number = default
    if isinstance(value, int):
        number = value
    elif isinstance(value, str) and len(value) <= 64:
        try:
            number = int(value, 16) if value[:2] in {"0x", "0X"} else int(value)
        except ValueError:
            real = to_float(value)
            number = int(real) if abs(real) < 1 << 62 else default
    elif isinstance(value, float) and abs(value) < 1 << 62:
        number = int(value)
    return number if low <= number <= high else default


def to_float(value: object) -> float:
    """A number, also as text; else NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float | str) or len(str(value)) > 400:
        return float("nan")
    try:
        return float(value)
    except (ValueError, OverflowError):
        return float("nan")


def int_column(values: Sequence[object], default: int, dtype: npt.DTypeLike = np.int64) -> Ints:
    """A column of integers; what is none, or out of the range of `dtype`, becomes `default`."""
    if values.count(None) == len(values):
        return np.full(len(values), default, dtype=dtype)
    filled = [default if value is None else value for value in values]
    bounds = np.iinfo(np.dtype(dtype))
    low, high = int(bounds.min), int(bounds.max)
    column = _plain_array(filled, "i")
    if column is None or ((column < low) | (column > high)).any():
        column = np.array([to_int(value, default, low, high) for value in filled], dtype=dtype)
    return column.astype(dtype, copy=False)


def float_column(values: Sequence[object]) -> npt.NDArray[np.float32]:
    """A column of numbers; what is none becomes NaN."""
    if values.count(None) == len(values):
        return np.full(len(values), np.nan, dtype=np.float32)
    filled = [np.nan if value is None else value for value in values]
    with np.errstate(over="ignore"):
        try:
            return np.array(filled, dtype=np.float64).astype(np.float32)
        except (ValueError, TypeError, OverflowError):
            return np.array([to_float(value) for value in filled], dtype=np.float64).astype(np.float32)


def _plain_array(values: list[object], kind: str) -> Ints | None:
    """The values as numpy takes them; None when they are not all of the kind."""
    try:
        column = np.array(values)
    except (ValueError, TypeError, OverflowError):
        return None
    return column if column.dtype.kind == kind and column.ndim == 1 else None
