"""Memory over time in torch's shapes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from otel_torchprof.analysis.memory import Action, DeviceMemory, MemoryProfile
from otel_torchprof.exporters.memory_timeline.page import write_page
from otel_torchprof.exporters.memory_timeline.torch_json import write_raw, write_totals
from otel_torchprof.recording import Recording


def export_memory_timeline(
    recording: Recording, path: Path, device: str | None, use_device: str | None
) -> None:
    """Writes the timeline of one device; as a page, of all.

    Args:
        path: ends in `.html`, `.json`, `.json.gz` or `.raw.json.gz`.
        device: such as "cuda:0"; None takes that of the activities where it was used, else the busiest.
        use_device: the kind of device among the activities.

    Raises:
        OSError: it cannot be written.
    """
    if path.name.endswith(".html"):
        write_page(recording, path)
        return
    devices = MemoryProfile(recording).devices
    wanted = device or (f"{use_device}:0" if use_device else "")
    chosen = [memory for memory in devices if _names(memory, wanted)]
    if device is None and not chosen:
        chosen = devices
    write = write_raw if path.name.removesuffix(".gz").endswith(".raw.json") else write_totals
    write(chosen, path)


class MemoryView:
    """In the shape of torch's `MemoryProfile`: what happened to memory, in order."""

    def __init__(self, recording: Recording) -> None:
        self.profile = MemoryProfile(recording)

    @property
    def timeline(self) -> tuple[tuple[int, Any, tuple[int, int], int], ...]:
        """Time (unix ns, -1 = before), torch's `Action`, block and its version, bytes; of all devices."""
        from torch.profiler import _memory_profiler

        rows: list[tuple[int, Any, tuple[int, int], int]] = []
        versions: Counter[int] = Counter()
        for memory in self.profile.devices:
            events = memory.events
            columns = (events.time_ns, events.action, events.block, events.delta_bytes)
            for time_ns, action, block, size_bytes in zip(
                *(map(int, column) for column in columns), strict=True
            ):
                if action == Action.INCREMENT_VERSION and size_bytes > 0:
                    versions[block] += 1  # the second half of the change
                    continue
                moment = -1 if action == Action.PREEXISTING else time_ns
                name = _ACTION_NAMES[action]
                torchs = getattr(_memory_profiler.Action, name)
                rows.append((moment, torchs, (block, versions[block]), abs(size_bytes)))
        return tuple(sorted(rows, key=lambda row: row[0]))


_ACTION_NAMES = {
    Action.PREEXISTING: "PREEXISTING",
    Action.CREATE: "CREATE",
    Action.INCREMENT_VERSION: "INCREMENT_VERSION",
    Action.DESTROY: "DESTROY",
}


def _names(memory: DeviceMemory, device: str) -> bool:
    return memory.device.name == device or memory.device.name.partition(":")[0] == device
