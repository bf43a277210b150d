"""Recordings with modules, made by hand."""

from __future__ import annotations

from otel_torchprof.recording import EventKind, Recording, RecordingBuilder, TrackKind


def nested_modules(children: int, grandchildren: int = 0) -> Recording:
    """A `Net` of 1 s that calls `children` layers, the later the longer, each of which calls its own."""
    builder = RecordingBuilder()
    builder.add_track("main", TrackKind.THREAD, torch_thread_id=1)
    builder.add_event("Net", 0, 1_000_000_000, track=0, kind=EventKind.MODULE)
    width_ns = 900_000_000 // children
    for number in range(children):
        start_ns = width_ns * number
        length_ns = width_ns * (number + 1) // (children + 1)
        _add_module(builder, "Layer", f"layers.{number}", start_ns, start_ns + length_ns)
        for part in range(grandchildren):
            part_ns = start_ns + part * length_ns // grandchildren
            path = f"layers.{number}.part{part}"
            _add_module(builder, "Part\x1b[2J", path, part_ns, part_ns + length_ns // grandchildren)
    builder.add_metadata(
        {"modules.0": [{"root": "Net", "path": "layers.0", "class": "Layer", "parameter_count": 12345}]}
    )
    return builder.finish()


def _add_module(builder: RecordingBuilder, name: str, path: str, start_ns: int, end_ns: int) -> None:
    builder.add_event(name, start_ns, end_ns, overload=path, track=0, kind=EventKind.MODULE)
