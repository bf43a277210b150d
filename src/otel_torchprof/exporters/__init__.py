"""Recordings as files for other tools: `export(recording, path)`. One module a format.

docs/converting.md lists the formats, and how another package adds one.
"""

from __future__ import annotations

import os
from pathlib import Path

from otel_torchprof.exporters.registry import (
    Exporter,
    UnknownFormatError,
    exporter_names,
    find_exporter,
    format_of_path,
)
from otel_torchprof.recording import Recording

__all__ = ["Exporter", "UnknownFormatError", "export", "exporter_names", "find_exporter", "format_of_path"]


def export(
    recording: Recording, path: str | os.PathLike[str], format_name: str | None = None
) -> dict[str, int]:
    """Writes a recording for another tool. What had the name is replaced once all is written.

    Args:
        path: the file, or for some formats the directory, to write.
        format_name: one of `exporter_names()`; None takes it from the name of the file.

    Returns:
        What was written: counts by name, `size_bytes` among them.

    Raises:
        UnknownFormatError: there is no such format, or the name of the file does not tell.
        OSError: writing failed; nothing was left behind.
    """
    return find_exporter(format_name or format_of_path(os.fspath(path))).export(recording, Path(path))
