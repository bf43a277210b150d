"""Names of events as torch's profiler writes them."""

from __future__ import annotations

from otel_torchprof.recording import EventKind, Recording


def event_name(recording: Recording, name_id: int, kind: int) -> str:
    """`file(line): function` for Python calls, `nn.Module: Class` for modules, else the name."""
    name = recording.name(name_id)
    if kind == EventKind.PYTHON:
        return python_name(name, recording.overload_name(name_id))
    if kind == EventKind.PYTHON_C:
        return name if name.startswith("<") else f"<built-in function {name}>"
    if kind == EventKind.MODULE:
        return name if name.startswith("nn.Module: ") else f"nn.Module: {name}"
    return name


def python_name(function: str, place: str) -> str:
    """A Python function with the place of its definition, `file:line`."""
    file, _colon, line = place.rpartition(":")
    return f"{file}({line}): {function}" if file else function
