"""Our own recordings, as they are."""

from __future__ import annotations

from otel_torchprof.errors import UnreadableInputError
from otel_torchprof.importers.input_file import InputFile
from otel_torchprof.importers.report import ImportReport
from otel_torchprof.recording import Recording

MAGIC = b"TPROF\r\n\x1a"


def recognizes(file: InputFile) -> bool:
    """Recordings begin with a magic number."""
    return file.head.startswith(MAGIC) and not file.compression


def load(file: InputFile, report: ImportReport) -> Recording:
    """Opens the recording; what is damaged in it is already among its problems."""
    try:
        recording = Recording.open(file.path)
    except (OSError, ValueError) as error:
        raise UnreadableInputError(str(error).replace("\n", " ")) from None
    if not recording.stopped:
        report.notes.append("The process that recorded was still recording, or was killed.")
    return recording
