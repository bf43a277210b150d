"""Memory in use where no addresses are known: no blocks, but how much it was at each moment.

Kineto's traces of 2021 say of an allocation or free how many bytes it was, later ones what was allocated
after it too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.memory import (
    Action,
    Category,
    Device,
    Growth,
    MemoryEvents,
    MemoryProfile,
    Peak,
    Timeline,
)
from otel_torchprof.analysis.memory.timeline import timeline
from otel_torchprof.exporters.html_report.memory import ShownMemory
from otel_torchprof.recording import MemoryFlags, Recording

_NO_BLOCK = -1


@dataclass(frozen=True, eq=False)
class MemoryLevel:
    """The memory of one device, all of it of a category that is not known."""

    device: Device
    events: MemoryEvents

    @cached_property
    def timeline(self) -> Timeline:
        """What was in use."""
        return timeline(self.events)

    @property
    def peak(self) -> Peak:
        """When most was in use; nobody knows for what."""
        totals = self.timeline.total_bytes
        moment = int(totals.argmax())
        by_category = dict.fromkeys(Category, 0) | {Category.UNKNOWN: int(totals[moment])}
        return Peak(int(self.timeline.time_ns[moment]), int(totals[moment]), by_category, [], [], [], [])

    @property
    def growth(self) -> Growth:
        """Nothing: it takes blocks to tell what stays."""
        return Growth(0, 0.0, [])


def memory_of_devices(recording: Recording) -> list[ShownMemory]:
    """Each device with memory in use, by blocks where these are known; the highest peak comes first."""
    profiles = MemoryProfile(recording).devices
    known = {profile.device for profile in profiles}
    levels = [level for level in memory_levels(recording) if level.device not in known]
    return sorted([*profiles, *levels], key=lambda memory: -memory.peak.total_bytes)


def memory_levels(recording: Recording) -> list[MemoryLevel]:
    """Each device of which anything is known, the one with the highest peak first."""
    memory = recording.memory
    memory = memory[(memory["flags"] & MemoryFlags.OUT_OF_MEMORY) == 0]
    found = []
    for device_type, index in np.unique(memory[["device_type", "device"]]).tolist():
        rows = memory[(memory["device_type"] == device_type) & (memory["device"] == index)]
        if len((events := _events(rows)).time_ns):
            found.append(MemoryLevel(Device(device_type, index), events))
    return sorted(found, key=lambda level: -level.peak.total_bytes)


def _events(rows: npt.NDArray[np.void]) -> MemoryEvents:
    totals = rows["total_allocated_bytes"]
    if (totals >= 0).all():
        before = max(int(totals[0] - rows["size_bytes"][0]), 0)
        levels = totals
    else:
        # What is freed more than was allocated was there before.
        changes = np.cumsum(rows["size_bytes"])
        before = max(-int(changes.min()), 0)
        levels = changes + before
    delta_bytes = np.diff(levels, prepend=before)
    action = np.where(delta_bytes > 0, Action.CREATE, Action.DESTROY)
    time_ns = rows["time_ns"]
    if before:
        delta_bytes = np.insert(delta_bytes, 0, before)
        action = np.insert(action, 0, Action.PREEXISTING)
        time_ns = np.insert(time_ns, 0, time_ns[0])
    changed = delta_bytes != 0
    count = int(np.count_nonzero(changed))
    return MemoryEvents(
        time_ns[changed],
        np.full(count, _NO_BLOCK),
        action[changed],
        np.full(count, Category.UNKNOWN),
        delta_bytes[changed],
    )
