"""Metadata of a recording: JSON objects, written one after the other, later keys winning."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any


def merge_metadata(lines: Iterable[bytes]) -> tuple[dict[str, Any], int]:
    """Merges JSON objects and counts the lines that are none.

    Bytes that are not UTF-8 become U+FFFD; NaN and infinities, which are not JSON, make a line unreadable.
    """
    merged: dict[str, Any] = {}
    unreadable = 0
    for line in lines:
        try:
            value = json.loads(line.decode("utf-8", "replace"), parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            unreadable += 1
            continue
        if isinstance(value, dict):
            merged.update(value)
        else:
            unreadable += 1
    return merged, unreadable


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
