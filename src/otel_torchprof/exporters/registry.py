"""The table of formats that recordings can be written in."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Protocol

from otel_torchprof.errors import TorchprofError
from otel_torchprof.recording import Recording

ENTRY_POINT_GROUP = "otel_torchprof_exporters"

_MODULES = {
    "chrome": "otel_torchprof.exporters.chrome",
    "tensorboard": "otel_torchprof.exporters.tensorboard",
    "otlp": "otel_torchprof.exporters.otlp.binary",
    "otlp-json": "otel_torchprof.exporters.otlp.json_lines",
    "stacks": "otel_torchprof.exporters.stacks",
    "memory-timeline": "otel_torchprof.exporters.memory_timeline",
    "tprof": "otel_torchprof.exporters.tprof",
}


class Exporter(Protocol):
    """One format. A module with these two names is one, and so is an object that an entry point names."""

    @property
    def suffixes(self) -> Sequence[str]:
        """How names of such files end, the usual ending first; empty for a directory."""

    def export(self, recording: Recording, path: Path) -> dict[str, int]:
        """Writes `path` and returns counts of what was written, `size_bytes` among them.

        Raises:
            OSError: writing failed; nothing was left behind.
        """


class UnknownFormatError(TorchprofError, ValueError):
    """A format that nobody exports."""


def exporter_names() -> list[str]:
    """The formats there are."""
    return [*_MODULES, *(name for name in _entry_points() if name not in _MODULES)]


def find_exporter(name: str) -> Exporter:
    """The exporter of a format; UnknownFormatError where there is none."""
    if name in _MODULES:
        return import_module(_MODULES[name])
    found = _entry_points().get(name)
    if found is None:
        raise UnknownFormatError(f"no format {name!r}; there are {', '.join(exporter_names())}")
    exporter: Exporter = found.load()
    return exporter


def format_of_path(path: str) -> str:
    """The format that the name of an output means; of several endings that fit the longest counts.

    Raises:
        UnknownFormatError: it means none.
    """
    if path.endswith(os.sep) or Path(path).is_dir():
        return "tensorboard"
    file_name = Path(path).name
    fitting = [
        (len(suffix), name)
        for name in exporter_names()
        for suffix in find_exporter(name).suffixes
        if file_name.lower().endswith(suffix)
    ]
    if not fitting:
        raise UnknownFormatError(
            f"the name {file_name!r} does not tell the format: choose one of {', '.join(exporter_names())}"
        )
    return max(fitting, key=lambda fit: fit[0])[1]


def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
