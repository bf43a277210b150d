"""What torch's caching allocator says of each CUDA device, without touching a device that was not used."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Bytes of one device, and requests that failed since the process began.

    `limit_bytes` is what this process may take of it; None where torch does not say.
    """

    device: int
    allocated_bytes: int
    reserved_bytes: int
    peak_bytes: int
    oom_count: int
    limit_bytes: int | None


class CudaMemory:
    """Asks the allocator, which answers from its own books: no context is made and no device waited for."""

    def __init__(self) -> None:
        self._oom_before_reset: dict[int, int] = {}
        self._last_oom: dict[int, int] = {}

    def read(self) -> list[DeviceMemory]:
        """The devices that have held memory; none before CUDA is initialized."""
        torch = sys.modules.get("torch")
        cuda = getattr(torch, "cuda", None)
        if cuda is None or not cuda.is_initialized():
            return []
        found = []
        for device in range(cuda.device_count()):
            stats = cuda.memory_stats(device)
            peak_bytes = stats.get("allocated_bytes.all.peak", 0)
            ooms = stats.get("num_ooms", 0)
            if not peak_bytes and not stats.get("reserved_bytes.all.current", 0) and not ooms:
                continue
            found.append(
                DeviceMemory(
                    device,
                    stats.get("allocated_bytes.all.current", 0),
                    stats.get("reserved_bytes.all.current", 0),
                    peak_bytes,
                    self._count_ooms(device, ooms),
                    _limit_bytes(cuda, device),
                )
            )
        return found

    def _count_ooms(self, device: int, now: int) -> int:
        """A count that goes on where `torch.cuda.reset_accumulated_memory_stats` starts over."""
        last = self._last_oom.get(device, 0)
        if now < last:
            self._oom_before_reset[device] = self._oom_before_reset.get(device, 0) + last
        self._last_oom[device] = now
        return self._oom_before_reset.get(device, 0) + now


def _limit_bytes(cuda: Any, device: int) -> int | None:
    """The memory of a device, or the share of it that `set_per_process_memory_fraction` left."""
    total_bytes = getattr(cuda.get_device_properties(device), "total_memory", None)
    if total_bytes is None:
        return None
    # Not there in older torch.
    fraction_of = getattr(cuda, "get_per_process_memory_fraction", None)
    fraction = 1.0 if fraction_of is None else fraction_of(device)
    return int(total_bytes * fraction)
