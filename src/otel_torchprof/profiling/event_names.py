"""Names of events as torch's profiler writes them."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from pathlib import Path

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
    """A Python function with the place of its definition, `file:line`, below where `import` finds it."""
    file, _colon, line = place.rpartition(":")
    return f"{_within_search_path(file, tuple(sys.path))}({line}): {function}" if file else function


@lru_cache(maxsize=4096)
def _within_search_path(file: str, search_path: tuple[str, ...]) -> str:
    """The path of a file below the innermost folder that modules are imported from, if it lies in one.

    What all names of a program begin with, such as `/usr/lib/python3.12/site-packages/`, tells none apart.
    """
    folders = (folder for folder in _folders(search_path) if file.startswith(folder))
    return file[max(map(len, folders), default=0) :]


@lru_cache(maxsize=8)
def _folders(search_path: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{Path(path).absolute()}{os.sep}" for path in search_path)
