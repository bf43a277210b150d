"""Memory records of one device, with its running totals."""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt

from otel_torchprof.recording import MEMORY_DTYPE, MemoryFlags

_CUDA = 1  # c10::DeviceType


class MemoryRows:
    """Collects allocations and frees in order of time.

    Args:
        track: of the builder they end up in.
        device: its number.
        reserved_bytes: what its segments held before the first record.
    """

    def __init__(self, track: int, device: int, reserved_bytes: int) -> None:
        self._track = track
        self._device = device
        self._reserved_bytes = reserved_bytes
        self._allocated_bytes = 0
        self._live: dict[int, int] = {}
        self._time_ns = array("q")
        self._event = array("q")
        self._address = array("Q")
        self._size_bytes = array("q")
        self._allocated = array("q")
        self._reserved = array("q")
        self._flags = array("B")

    def allocate(self, time_ns: int, event: int, address: int, size_bytes: int) -> None:
        """An allocation. `event` counts as `table` says, -1 = none."""
        # Where it was still in use, the trace lost the record of its free.
        self._allocated_bytes += size_bytes - self._live.get(address, 0)
        self._live[address] = size_bytes
        self._add(time_ns, event, address, size_bytes, 0)

    def free(self, time_ns: int, event: int, address: int, size_bytes: int) -> None:
        """A free; its size is that of its allocation."""
        size_bytes = self._live.pop(address, size_bytes)
        self._allocated_bytes -= size_bytes
        self._add(time_ns, event, address, -size_bytes, MemoryFlags.FREE)

    def fail(self, time_ns: int, event: int, size_bytes: int) -> None:
        """A request that could not be served."""
        self._add(time_ns, event, 0, size_bytes, MemoryFlags.OUT_OF_MEMORY)

    def reserve(self, size_bytes: int) -> None:
        """Memory got from the device, or given back to it where `size_bytes` is negative."""
        self._reserved_bytes = max(self._reserved_bytes + size_bytes, 0)

    def _add(self, time_ns: int, event: int, address: int, size_bytes: int, flags: int) -> None:
        self._time_ns.append(time_ns)
        self._event.append(event)
        self._address.append(address)
        self._size_bytes.append(size_bytes)
        self._allocated.append(self._allocated_bytes)
        self._reserved.append(self._reserved_bytes)
        self._flags.append(flags)

    def table(self, first_event: int) -> npt.NDArray[np.void]:
        """The records; their event 0 is the builder's `first_event`."""
        records = np.zeros(len(self._time_ns), dtype=MEMORY_DTYPE)
        records["time_ns"] = self._time_ns
        event = np.array(self._event, dtype=np.int64)
        records["event"] = np.where(event < 0, -1, event + first_event)
        records["address"] = self._address
        records["size_bytes"] = self._size_bytes
        records["total_allocated_bytes"] = self._allocated
        records["total_reserved_bytes"] = self._reserved
        records["track"] = self._track
        records["device"] = self._device
        records["device_type"] = _CUDA
        records["flags"] = self._flags
        return records
