"""The lines that events lie on."""

from __future__ import annotations

from dataclasses import dataclass

from otel_torchprof.recording.kinds import TrackKind


@dataclass(frozen=True, slots=True)
class Track:
    """A thread of a process, a stream of a device, or another line of events."""

    name: str
    kind: TrackKind
    process_id: int
    thread_id: int  # of the operating system; of a stream, its number
    torch_thread_id: int  # 0 = not known
    device: int  # -1 = none
    context: int  # -1 = none
