"""Microseconds as JSON has them to integer nanoseconds, exactly: never through doubles."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt

# Beyond this a recording cannot hold a time; see kMaxTimeNs.
MAX_TIME_NS = (1 << 62) - 1
# Stands for no time in a column.
NO_TIME = -(1 << 63)
_MAX_WHOLE = MAX_TIME_NS // 1000
_NS_DIGITS = 3
_MAX_EXPONENT = 30


def microseconds_to_ns(value: object) -> int | None:
    """Nanoseconds of a number of microseconds: an integer, or a decimal as text.

    More than three decimals are rounded to the nearest ns. None for what is no time or out of range.
    """
    if value.__class__ is int:
        nanoseconds = value * 1000
    elif isinstance(value, str):
        whole, _point, fraction = value.partition(".")
        if len(fraction) == _NS_DIGITS and whole.isdecimal() and fraction.isdecimal():
            nanoseconds = int(whole + fraction) if len(whole) <= _MAX_EXPONENT else MAX_TIME_NS + 1
        else:
            return _decimal_to_ns(value)
    else:
        return None
    return nanoseconds if -MAX_TIME_NS <= nanoseconds <= MAX_TIME_NS else None


def times_column(values: list[Any]) -> npt.NDArray[np.int64]:
    """Nanoseconds of many numbers of microseconds; NO_TIME for what is none."""
    try:
        column = np.array(values)
    except (ValueError, TypeError, OverflowError):
        column = np.empty(0)
    if column.dtype.kind == "i" and column.ndim == 1 and len(column) == len(values):
        whole = (column >= -_MAX_WHOLE) & (column <= _MAX_WHOLE)
        return np.where(whole, column * 1000, NO_TIME)
    converted = [microseconds_to_ns(value) for value in values]
    return np.array([NO_TIME if value is None else value for value in converted], dtype=np.int64)


def _decimal_to_ns(text: str) -> int | None:
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        return None
    if not value.is_finite() or value.adjusted() > _MAX_EXPONENT:
        return None
    nanoseconds = int((value * 1000).to_integral_value())
    return nanoseconds if -MAX_TIME_NS <= nanoseconds <= MAX_TIME_NS else None
