"""Memory over time in torch's shapes."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

from otel_torchprof.analysis.memory import Action, DeviceMemory, MemoryProfile
from otel_torchprof.exporters.memory_timeline.page import write_page
from otel_torchprof.exporters.memory_timeline.torch_json import write_raw, write_totals
from otel_torchprof.recording import Recording


class MemoryTimeline:
    """What memory was used for over time, in the shape of torch's `MemoryProfileTimeline`.

    Args:
        recording: recorded with memory.
        use_device: the kind of device among the activities.
    """

    def __init__(self, recording: Recording, use_device: str | None) -> None:
        self._recording = recording
        self._use_device = use_device

    def export(self, path: Path, device: str | None) -> None:
        """Writes the timeline of one device; as a page, of all.

        Args:
            path: ends in `.html`, `.json`, `.json.gz` or `.raw.json.gz`.
            device: such as "cuda:0"; None takes that of the activities where it was used, else the busiest.

        Raises:
            OSError: it cannot be written.
        """
        if path.name.endswith(".html"):
            write_page(self._recording, path)
        elif path.name.removesuffix(".gz").endswith(".raw.json"):
            write_raw(self._chosen(device), path)
        else:
            write_totals(self._chosen(device), path)

    def export_memory_timeline(self, path: str | os.PathLike[str], device_str: str) -> None:
        """Writes times and bytes by category.

        Raises:
            OSError: it cannot be written.
        """
        write_totals(self._chosen(device_str), Path(path))

    def export_memory_timeline_raw(self, path: str | os.PathLike[str], device_str: str) -> None:
        """Writes what happened, one allocation or free after the other.

        Raises:
            OSError: it cannot be written.
        """
        write_raw(self._chosen(device_str), Path(path))

    def export_memory_timeline_html(self, path: str | os.PathLike[str], device_str: str) -> None:
        """Writes a page, which has all devices.

        Raises:
            OSError: it cannot be written.
        """
        write_page(self._recording, Path(path))

    def _chosen(self, device: str | None) -> list[DeviceMemory]:
        devices = MemoryProfile(self._recording).devices
        wanted = device or (f"{self._use_device}:0" if self._use_device else "")
        chosen = [memory for memory in devices if _names(memory, wanted)]
        return devices if device is None and not chosen else chosen


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
