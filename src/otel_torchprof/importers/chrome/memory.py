"""Kineto's "[memory]" instants as memory records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from otel_torchprof.importers.chrome.schema import Arguments, Event
from otel_torchprof.importers.numbers import int_column
from otel_torchprof.recording import MEMORY_DTYPE


def memory_records(events: Sequence[tuple[Event, int]], tracks: Sequence[int]) -> npt.NDArray[np.void]:
    """One record an event, given with its time; all have arguments."""
    arguments = [event.args or Arguments() for event, _time in events]
    records = np.zeros(len(events), dtype=MEMORY_DTYPE)
    records["time_ns"] = [time for _event, time in events]
    records["event"] = -1
    records["track"] = tracks
    records["address"] = np.maximum(int_column([known.address for known in arguments], 0), 0)
    records["size_bytes"] = int_column([known.memory_bytes for known in arguments], 0)
    allocated = int_column([known.total_allocated for known in arguments], -1)
    records["total_allocated_bytes"] = np.maximum(allocated, -1)
    reserved = int_column([known.total_reserved for known in arguments], -1)
    records["total_reserved_bytes"] = np.maximum(reserved, -1)
    records["device"] = int_column([known.device_id for known in arguments], -1, np.int32)
    records["device_type"] = int_column([known.device_type for known in arguments], 0, np.uint8)
    return records
