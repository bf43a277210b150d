"""Kineto's "[memory]" instants as memory records."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from otel_torchprof.importers.chrome.schema import Arguments
from otel_torchprof.importers.numbers import to_int
from otel_torchprof.recording import MEMORY_DTYPE, MemoryFlags

_INT32 = (1 << 31) - 1


MEMORY_NAME = "[memory]"
OUT_OF_MEMORY_NAME = "[OutOfMemory]"
# Of the counters that our exporter draws the totals of the instants with.
MEMORY_TOTAL_CATEGORY = "memory_total"


def memory_record(
    arguments: Arguments, time_ns: int, track: int, *, failed: bool = False
) -> npt.NDArray[np.void]:
    """The record of one instant; `failed`: of a request that memory did not suffice for."""
    record = np.zeros(1, dtype=MEMORY_DTYPE)
    record["time_ns"] = time_ns
    record["event"] = -1
    record["track"] = track
    record["address"] = max(to_int(arguments.address, 0), 0)
    record["size_bytes"] = to_int(arguments.memory_bytes, 0)
    record["total_allocated_bytes"] = max(to_int(arguments.total_allocated, -1), -1)
    record["total_reserved_bytes"] = max(to_int(arguments.total_reserved, -1), -1)
    record["device"] = to_int(arguments.device_id, -1, -_INT32 - 1, _INT32)
    record["flags"] = MemoryFlags.OUT_OF_MEMORY if failed else 0
    record["device_type"] = to_int(arguments.device_type, 0, 0, 255)
    return record
