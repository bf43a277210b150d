"""The arguments of kernels, copies, synchronizations and of the calls that cause them, as device records."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from otel_torchprof.importers.chrome.schema import Arguments
from otel_torchprof.importers.numbers import float_column, int_column, to_int
from otel_torchprof.recording import DEVICE_DTYPE

_UNSIGNED_MINUS_ONE = (1 << 32) - 1

# Columns of the record that are called as the argument is.
_INTEGERS = (
    "device", "context", "graph_id", "graph_node_id", "wait_correlation", "wait_stream", "wait_event",
    "registers", "shared_bytes", "priority",
)  # fmt: skip
_FLOATS = ("blocks_per_sm", "warps_per_sm", "occupancy_percent")
_BLANK = (0, 0, 0)


class DeviceRows:
    """Collects device records: of work on a device in full, of calls their callback and external ids."""

    def __init__(self) -> None:
        self._tables: list[npt.NDArray[np.void]] = []

    def add_work(self, rows: npt.NDArray[np.int64], arguments: Sequence[Arguments]) -> None:
        """Takes the arguments of events on a device."""
        if not arguments:
            return
        table = blank_devices(len(rows))
        table["event"] = rows
        streams = int_column([known.stream for known in arguments], -1)
        table["stream"] = np.where(streams == _UNSIGNED_MINUS_ONE, -1, streams)
        table["size_bytes"] = int_column([known.bytes for known in arguments], -1)
        table["external_id"] = _external_ids(arguments)
        for name in ("grid", "block"):
            table[name] = _dimensions_column([getattr(known, name) for known in arguments])
        for name in _FLOATS:
            table[name] = float_column([getattr(known, name) for known in arguments])
        for name in _INTEGERS:
            table[name] = int_column([getattr(known, name) for known in arguments], -1, DEVICE_DTYPE[name])
        self._tables.append(table)

    def add_calls(self, rows: npt.NDArray[np.int64], arguments: Sequence[Arguments]) -> None:
        """Takes the arguments of runtime or driver calls."""
        if not arguments:
            return
        table = blank_devices(len(rows))
        table["event"] = rows
        table["external_id"] = _external_ids(arguments)
        callbacks = [known.cid if known.cbid is None else known.cbid for known in arguments]
        table["callback_id"] = int_column(callbacks, -1, np.int32)
        self._tables.append(table)

    def table(self) -> npt.NDArray[np.void]:
        """All records."""
        return np.concatenate(self._tables) if self._tables else blank_devices(0)


def blank_devices(count: int) -> npt.NDArray[np.void]:
    """Records in which nothing is known."""
    table = np.full(count, -1, dtype=np.int64).repeat(DEVICE_DTYPE.itemsize // 8).view(DEVICE_DTYPE)
    for name in ("grid", "block", "reserved"):
        table[name] = 0
    for name in _FLOATS:
        table[name] = np.nan
    return table


def _external_ids(arguments: Sequence[Arguments]) -> npt.NDArray[np.int64]:
    """Under either of its spellings."""
    return int_column(
        [known.old_external_id if known.external_id is None else known.external_id for known in arguments], -1
    )


def _dimensions_column(values: Sequence[Any]) -> npt.NDArray[np.int64]:
    filled = [_BLANK if value is None else value for value in values]
    try:
        if set(map(len, filled)) == {len(_BLANK)}:
            column = np.array(list(chain.from_iterable(filled)))
            if column.dtype.kind == "i" and (column >= 0).all() and (column <= _UNSIGNED_MINUS_ONE).all():
                return column.reshape(-1, len(_BLANK))
    except (ValueError, TypeError, OverflowError):
        pass
    return np.array([_dimensions(value) for value in filled], dtype=np.int64)


def _dimensions(value: Any) -> tuple[int, int, int]:
    """`[4, 1, 1]`, also as text; blanks where it is no such thing."""
    if isinstance(value, str):
        value = value[:100].strip("[]()").split(",")
    elif isinstance(value, tuple):
        value = list(value)
    if not isinstance(value, list) or len(value) > 3:
        return (0, 0, 0)
    x, y, z, *_ = [to_int(item, 0, 0, _UNSIGNED_MINUS_ONE) for item in value] + [1, 1, 1]
    return (x, y, z) if value else (0, 0, 0)
