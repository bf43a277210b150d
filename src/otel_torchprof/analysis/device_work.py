"""What a recording says of work on devices: kernels, copies and fills."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.event_names import is_named
from otel_torchprof.analysis.launches import WORK_KINDS
from otel_torchprof.recording import EventFlags, EventKind, Recording

Numbers: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

# Of NCCL and RCCL, of all versions: `ncclDevKernel_AllReduce_Sum_f32_RING_LL`, `ncclKernel_SendRecv_...`.
COLLECTIVE_KERNEL = re.compile(r"(?:nccl|rccl)\w*Kernel")


@dataclass(frozen=True, eq=False)
class DeviceWork:
    """Rows of work that has ended, ascending, and columns beside them."""

    recording: Recording
    rows: Numbers

    @classmethod
    def of(cls, recording: Recording) -> DeviceWork:
        """All work of a recording."""
        events = recording.events
        has_ended = events.flags & EventFlags.UNFINISHED == 0
        return cls(recording, np.flatnonzero(np.isin(events.kind, WORK_KINDS) & has_ended))

    def where(self, wanted: Mask) -> DeviceWork:
        """A part of it."""
        return DeviceWork(self.recording, self.rows[wanted])

    @cached_property
    def kind(self) -> npt.NDArray[np.uint8]:
        """An `EventKind`."""
        return self.recording.events.kind[self.rows]

    @cached_property
    def device(self) -> Numbers:
        """Index of the device, -1 = not known."""
        of_track = np.array([track.device for track in self.recording.tracks] + [-1], dtype=np.int64)
        return np.maximum(of_track[self.recording.events.track[self.rows]], -1)

    @cached_property
    def start_ns(self) -> Numbers:
        """Start, unix ns."""
        return self.recording.events.start_ns[self.rows]

    @cached_property
    def end_ns(self) -> Numbers:
        """End, unix ns."""
        return self.recording.events.end_ns[self.rows]

    @cached_property
    def duration_ns(self) -> Numbers:
        """End minus start."""
        return self.end_ns - self.start_ns

    @cached_property
    def is_collective(self) -> Mask:
        """Whether it is a kernel of a communication library."""
        named = is_named(self.recording, lambda name: COLLECTIVE_KERNEL.search(name) is not None)
        collective: Mask = named[self.rows] & (self.kind == EventKind.KERNEL)
        return collective

    @cached_property
    def size_bytes(self) -> Numbers:
        """Bytes copied or filled, 0 = not known."""
        records = self.recording.devices
        size = np.zeros(len(self.rows), dtype=np.int64)
        if len(records):
            place = np.minimum(np.searchsorted(records["event"], self.rows), len(records) - 1)
            found = records["event"][place] == self.rows
            size[found] = np.maximum(records["size_bytes"][place[found]], 0)
        return size
