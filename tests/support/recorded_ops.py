"""Recording a piece of work with ours and with torch.profiler, as plain values to compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch._C._profiler import _ExperimentalConfig

from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.capture_options import CaptureOptions
from otel_torchprof.recording import Recording

# The scopes of at::RecordScope that torch 2.13 uses here.
FUNCTION, BACKWARD_FUNCTION, TORCHSCRIPT_FUNCTION, USER_SCOPE = 0, 1, 2, 7


@dataclass(frozen=True)
class Op:
    """One event of a recording."""

    row: int
    name: str
    overload: str
    scope: int
    thread: int  # torch's thread id
    sequence: int
    forward_thread: int
    start_ns: int
    end_ns: int
    flags: int


def record(work: Callable[[], object], path: Path | None = None, **options: Any) -> Recording:
    """Records `work` with the given CaptureOptions."""
    capture = Capture(path, CaptureOptions(**options))
    capture.start()
    try:
        work()
    finally:
        recording = capture.stop()
    return recording


def kineto_events(work: Callable[[], object], **options: Any) -> list[Any]:
    """torch.profiler raw events of `work`, all threads; its `events()` drops same-named only children."""
    config = _ExperimentalConfig(profile_all_threads=True, capture_overload_names=True)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, experimental_config=config, **options) as profiler:
        work()
    return list(profiler.profiler.kineto_results.events())


def ops_of(recording: Recording) -> list[Op]:
    """The events of a recording, row by row."""
    events = recording.events
    return [
        Op(
            row=row,
            name=recording.event_name(row),
            overload=recording.overload_name(int(events.name[row])),
            scope=int(events.scope[row]),
            thread=recording.tracks[int(events.track[row])].torch_thread_id,
            sequence=int(events.sequence[row]),
            forward_thread=int(events.forward_thread[row]),
            start_ns=int(events.start_ns[row]),
            end_ns=int(events.end_ns[row]),
            flags=int(events.flags[row]),
        )
        for row in range(len(recording))
    ]


def names_of(recording: Recording) -> Counter[str]:
    """How often each name was recorded."""
    return Counter(op.name for op in ops_of(recording))


def nesting_of(recording: Recording) -> list[tuple[str, str | None]]:
    """Each event's name with that of the one around it, in the order of their beginnings."""
    parents = recording.tree().parent
    names = [recording.event_name(row) for row in range(len(recording))]
    return [
        (name, None if parent < 0 else names[parent]) for name, parent in zip(names, parents, strict=True)
    ]
