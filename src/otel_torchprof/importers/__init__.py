"""Files from the past as recordings: `recording, report = load(path)`.

What a format is recognized by is its content. One module a format; docs/importing.md lists them, what is
kept of each, and how another package adds one.
"""

from __future__ import annotations

import os

from otel_torchprof.errors import UnreadableInputError
from otel_torchprof.importers.decompression import GZIP_MAGIC, ZSTD_MAGIC
from otel_torchprof.importers.input_file import InputFile
from otel_torchprof.importers.limits import DEFAULT_LIMITS, ImportLimits
from otel_torchprof.importers.registry import Importer, find_importer
from otel_torchprof.importers.report import ImportReport
from otel_torchprof.importers.totals import count_totals
from otel_torchprof.recording import Recording

__all__ = ["ImportLimits", "ImportReport", "Importer", "InputFile", "UnreadableInputError", "load"]


def load(
    path: str | os.PathLike[str], *, limits: ImportLimits = DEFAULT_LIMITS
) -> tuple[Recording, ImportReport]:
    """Reads a trace or recording of any known format.

    Args:
        path: the file, which may be compressed with gzip or zstd.
        limits: bounds on what is read.

    Returns:
        The recording, and a report that names and counts what was wrong with the file.

    Raises:
        UnreadableInputError: the file cannot be opened, is over the limits, is in no known format, or is
            JSON without a trace in it. A trace that holds nothing is an empty recording.
    """
    with InputFile(path, limits) as file:
        found = find_importer(file)
        if found is None:
            raise UnreadableInputError(_unknown_format(file))
        name, importer = found
        report = ImportReport(name)
        recording = importer.load(file, report)
        if file.truncated:
            report.add_problem("compressed_data_cut_off")
    report.add_problems(recording.problems)
    count_totals(recording, report)
    return recording, report


def _unknown_format(file: InputFile) -> str:
    if not file.head:
        return f"{file.path} is empty"
    if file.compression and file.head.startswith((GZIP_MAGIC, ZSTD_MAGIC)):
        return f"{file.path} is compressed more than once: unpack it first"
    return f"{file.path} is neither a recording nor a trace of a known format (see docs/importing.md)"
