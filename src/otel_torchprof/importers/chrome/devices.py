"""The arguments of kernels, copies, synchronizations and of the calls that cause them, as device records."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from otel_torchprof.importers.chrome.schema import Arguments
from otel_torchprof.importers.numbers import to_float, to_int
from otel_torchprof.recording import DEVICE_DTYPE

_UNSIGNED_MINUS_ONE = (1 << 32) - 1

# Columns of the record that are called as the argument is.
_INTEGERS = (
    "device", "context", "graph_id", "graph_node_id", "wait_correlation", "wait_stream", "wait_event",
    "registers", "shared_bytes", "priority",
)  # fmt: skip
_FLOATS = ("blocks_per_sm", "warps_per_sm", "occupancy_percent")


def work_record(row: int, arguments: Arguments) -> npt.NDArray[np.void]:
    """The record of an event on a device."""
    record = _blank_record(row, arguments)
    stream = to_int(arguments.stream, -1)
    record["stream"] = -1 if stream == _UNSIGNED_MINUS_ONE else stream
    record["size_bytes"] = to_int(arguments.bytes, -1)
    for name in ("grid", "block"):
        record[name] = _dimensions(getattr(arguments, name))
    with np.errstate(over="ignore"):
        for name in _FLOATS:
            record[name] = to_float(getattr(arguments, name))
    for name in _INTEGERS:
        bounds = np.iinfo(DEVICE_DTYPE[name])
        record[name] = to_int(getattr(arguments, name), -1, int(bounds.min), int(bounds.max))
    return record


def call_record(row: int, arguments: Arguments) -> npt.NDArray[np.void]:
    """The record of a runtime or driver call."""
    record = _blank_record(row, arguments)
    callback = arguments.cid if arguments.cbid is None else arguments.cbid
    record["callback_id"] = to_int(callback, -1, -(1 << 31), (1 << 31) - 1)
    return record


def _blank_record(row: int, arguments: Arguments) -> npt.NDArray[np.void]:
    """A record in which nothing is known but the op around the event, under either of its spellings."""
    record = np.full(DEVICE_DTYPE.itemsize // 8, -1, dtype=np.int64).view(DEVICE_DTYPE)
    for name in ("grid", "block", "reserved"):
        record[name] = 0
    for name in _FLOATS:
        record[name] = np.nan
    record["event"] = row
    external_id = arguments.old_external_id if arguments.external_id is None else arguments.external_id
    record["external_id"] = to_int(external_id, -1)
    return record


def _dimensions(value: Any) -> tuple[int, int, int]:
    """`[4, 1, 1]`, also as text; blanks where it is no such thing."""
    if isinstance(value, str):
        value = value[:100].strip("[]()").split(",")
    if not isinstance(value, list) or len(value) > 3:
        return (0, 0, 0)
    x, y, z, *_ = [to_int(item, 0, 0, _UNSIGNED_MINUS_ONE) for item in value] + [1, 1, 1]
    return (x, y, z) if value else (0, 0, 0)
