"""The memory of a recording, analysed: the entry to everything else here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from otel_torchprof.analysis.memory.blocks import Blocks, Device, find_blocks
from otel_torchprof.analysis.memory.categorize import Categories, categorize
from otel_torchprof.analysis.memory.growth import Growth, find_growth
from otel_torchprof.analysis.memory.operators import find_operators
from otel_torchprof.analysis.memory.peak import Peak, find_peak
from otel_torchprof.analysis.memory.sites import Sites
from otel_torchprof.analysis.memory.timeline import MemoryEvents, Timeline, memory_events, timeline
from otel_torchprof.recording import Recording


class MemoryProfile:
    """What memory was used for, from a recording made with `profile_memory`, or from a snapshot.

    With `record_shapes` too, the flow of data tells categories; without, only roles and phases do.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        operators = find_operators(recording)
        self.blocks: Blocks = find_blocks(recording)
        self.categories: Categories = categorize(recording, self.blocks, operators)
        self._sites = Sites(recording, operators)

    @cached_property
    def devices(self) -> list[DeviceMemory]:
        """Each device with memory in use, the one with the highest peak first."""
        found = [DeviceMemory(self, number) for number in range(len(self.blocks.devices))]
        found = [device for device in found if len(device.events.time_ns)]
        return sorted(found, key=lambda memory: (-memory.peak.total_bytes, memory.device))

    @cached_property
    def names(self) -> list[str]:
        """By block, what the program calls it: `encoder.weight`, `encoder.weight.exp_avg`; else empty."""
        recording, names = self.recording, [""] * len(self.blocks)
        roles = recording.tensor_roles
        for block, name in zip(self.blocks.of_role.tolist(), roles["name"].tolist(), strict=True):
            if block >= 0:
                parts = (recording.name(name), recording.overload_name(name))
                names[block] = ".".join(part for part in parts if part)
        return names

    @property
    def sites(self) -> Sites:
        """Names places in the program."""
        return self._sites


@dataclass(frozen=True, eq=False)
class DeviceMemory:
    """The memory of one device."""

    profile: MemoryProfile
    number: int  # in `Blocks.devices`

    @property
    def device(self) -> Device:
        """Which it is."""
        return self.profile.blocks.devices[self.number]

    @cached_property
    def events(self) -> MemoryEvents:
        """Every change, by time."""
        return memory_events(self.profile.blocks, self.profile.categories, self.number)

    @cached_property
    def timeline(self) -> Timeline:
        """What was in use, by category."""
        return timeline(self.events)

    @cached_property
    def peak(self) -> Peak:
        """When most was in use, and for what."""
        return find_peak(self.events, self.profile.blocks, self.profile.sites, self.profile.names)

    @cached_property
    def growth(self) -> Growth:
        """What rises step over step."""
        return find_growth(self.profile.recording, self.profile.blocks, self.profile.sites, self.number)
