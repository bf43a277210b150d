"""What torch's caching allocator says of each CUDA device, without touching a device that was not used."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Bytes of one device, and requests that failed since the process began."""

    device: int
    allocated_bytes: int
    reserved_bytes: int
    peak_bytes: int
    oom_count: int


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
