"""Starting the capture of a window: into a file, where recordings are kept in files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from otel_torchprof.recorder.failures import failures


class _Startable(Protocol):
    def start(self) -> None: ...


_Capture = TypeVar("_Capture", bound=_Startable)


def start_capture(
    open_capture: Callable[[Path | None], _Capture],
    recording_path: Callable[[int], Path] | None,
    number: int,
) -> _Capture:
    """A running capture; one that cannot have its file records into memory, which is said once.

    Args:
        open_capture: makes a capture that records into a file, or with None into memory.
        recording_path: path of the file; None saves no files.
        number: of what the window begins with, a step or a request.
    """
    if recording_path is not None:
        try:
            return _started(open_capture(recording_path(number)))
        except OSError as error:
            failures.report(
                "a recording was not saved to a file in OTEL_PYTHON_TORCHPROF_RECORDING_DIR", error
            )
    return _started(open_capture(None))


def _started(capture: _Capture) -> _Capture:
    capture.start()
    return capture
