"""The arguments of kernels, copies, synchronizations and of the calls that cause them, as device records."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from otel_torchprof.importers.chrome.schema import Arguments
from otel_torchprof.importers.numbers import float_column, int_column, to_int
from otel_torchprof.recording import DEVICE_DTYPE, RecordingBuilder

_BATCH_ROWS = 8192
_UNSIGNED_MINUS_ONE = (1 << 32) - 1

# Integer columns of the record by argument; several spellings of one, the first that is there counts.
_INTEGERS = ("device", "context", "graph_id", "graph_node_id", "wait_correlation", "wait_stream", "wait_event",
             "registers", "shared_bytes", "priority")  # fmt: skip
_FLOATS = ("blocks_per_sm", "warps_per_sm", "occupancy_percent")
_DIMENSIONS = ("grid", "block")
_ON_DEVICE = attrgetter(
    "external_id", "old_external_id", "stream", "bytes", *_DIMENSIONS, *_FLOATS, *_INTEGERS
)
_OF_CALL = attrgetter("external_id", "old_external_id", "cbid", "cid")


class DeviceRows:
    """Collects device records: of work on a device in full, of calls their callback and external ids."""

    def __init__(self) -> None:
        self._events: list[int] = []
        self._work: list[tuple[Any, ...]] = []
        self._call_events: list[int] = []
        self._calls: list[tuple[Any, ...]] = []
        self._tables: list[npt.NDArray[np.void]] = []

    def add_work(self, events: Iterable[int], arguments: Iterable[Arguments]) -> None:
        """Takes the arguments of events on a device."""
        self._events.extend(events)
        self._work.extend(map(_ON_DEVICE, arguments))
        if len(self._events) >= _BATCH_ROWS:
            self._flush()

    def add_calls(self, events: Iterable[int], arguments: Iterable[Arguments]) -> None:
        """Takes the arguments of runtime or driver calls."""
        self._call_events.extend(events)
        self._calls.extend(map(_OF_CALL, arguments))
        if len(self._call_events) >= _BATCH_ROWS:
            self._flush()

    def table(self) -> npt.NDArray[np.void]:
        """All records."""
        self._flush()
        return np.concatenate(self._tables) if self._tables else blank_devices(0)

    def add_to(self, builder: RecordingBuilder) -> None:
        """Hands all records to the builder."""
        builder.add_devices(self.table())

    def _flush(self) -> None:
        if self._events:
            self._tables.append(_work_table(self._events, self._work))
        if self._call_events:
            external, old_external, cbid, cid = zip(*self._calls, strict=True)
            table = blank_devices(len(self._call_events))
            table["event"] = self._call_events
            table["external_id"] = int_column(_first(external, old_external), -1, np.int64)
            table["callback_id"] = int_column(_first(cbid, cid), -1, np.int32)
            self._tables.append(table)
        self._events, self._work, self._call_events, self._calls = [], [], [], []


def blank_devices(count: int) -> npt.NDArray[np.void]:
    """Records in which nothing is known."""
    table = np.full(count, -1, dtype=np.int64).repeat(DEVICE_DTYPE.itemsize // 8).view(DEVICE_DTYPE)
    for name in ("grid", "block", "reserved"):
        table[name] = 0
    for name in _FLOATS:
        table[name] = np.nan
    return table


def _work_table(events: list[int], work: list[tuple[Any, ...]]) -> npt.NDArray[np.void]:
    external, old_external, stream, size_bytes, grid, block, *rest = zip(*work, strict=True)
    table = blank_devices(len(events))
    table["event"] = events
    table["external_id"] = int_column(_first(external, old_external), -1, np.int64)
    streams = int_column(stream, -1, np.int64)
    table["stream"] = np.where(streams == _UNSIGNED_MINUS_ONE, -1, streams)
    table["size_bytes"] = int_column(size_bytes, -1, np.int64)
    table["grid"] = _dimensions_column(grid)
    table["block"] = _dimensions_column(block)
    for name, column in zip(_FLOATS, rest, strict=False):
        table[name] = float_column(column)
    for name, column in zip(_INTEGERS, rest[len(_FLOATS) :], strict=True):
        dtype = DEVICE_DTYPE[name]
        table[name] = int_column(column, -1, dtype)
    return table


def _first(*columns: tuple[Any, ...]) -> list[Any]:
    first, second = columns
    return [value if value is not None else other for value, other in zip(first, second, strict=True)]


def _dimensions_column(values: tuple[Any, ...]) -> npt.NDArray[np.int64]:
    filled = [(0, 0, 0) if value is None else value for value in values]
    try:
        column = np.array(filled)
    except (ValueError, TypeError, OverflowError):
        column = np.empty(0)
    if column.dtype.kind == "i" and column.ndim == 2 and column.shape[1] == 3 and (column >= 0).all():
        return np.minimum(column, _UNSIGNED_MINUS_ONE)
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
