"""The table of formats, and which of them a file is in."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol

from otel_torchprof.importers.input_file import InputFile
from otel_torchprof.importers.report import ImportReport
from otel_torchprof.recording import Recording

ENTRY_POINT_GROUP = "otel_torchprof_importers"

# In order of asking; formats that are known by a magic number come first, the broadest last.
_MODULES = {
    "tprof": "otel_torchprof.importers.tprof",
    "nsys": "otel_torchprof.importers.nsys",
    "nvprof": "otel_torchprof.importers.nvprof",
    "cuda-snapshot": "otel_torchprof.importers.cuda_snapshot",
    "otlp": "otel_torchprof.importers.otlp",
    "chrome": "otel_torchprof.importers.chrome",
}


class Importer(Protocol):
    """One format. A module with these two functions is one, and so is an object that an entry point names."""

    def recognizes(self, file: InputFile) -> bool:
        """Whether `file` is in this format, by its content (`file.head`), not its name."""

    def load(self, file: InputFile, report: ImportReport) -> Recording:
        """Reads what can be read of `file` and counts in `report` what cannot.

        Raises:
            UnreadableInputError: nothing of it can be read.
        """


@cache
def installed_importers() -> tuple[EntryPoint, ...]:
    """Those of other packages; looked for once, which takes as long as importing a small trace."""
    return tuple(entry_points(group=ENTRY_POINT_GROUP))


def importers() -> Iterator[tuple[str, Importer]]:
    """All importers by name: those of other packages first, so that they may take over a format."""
    for entry_point in installed_importers():
        if entry_point.name not in _MODULES:
            yield entry_point.name, entry_point.load()
    for name, module in _MODULES.items():
        yield name, import_module(module)


def find_importer(file: InputFile) -> tuple[str, Importer] | None:
    """The first importer that recognizes `file`."""
    return next(((name, importer) for name, importer in importers() if importer.recognizes(file)), None)
