"""What `on_trace_ready` can do with a cycle: write it for a tool, keep it, send it."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from otel_torchprof.recording import Recording
    from otel_torchprof.telemetry.redaction import RedactionHook

DEFAULT_SEND_TIMEOUT_S = 30.0


class FinishedCycle(Protocol):
    """What a handler needs of a profile."""

    @property
    def recording(self) -> Recording: ...

    def export_chrome_trace(self, path: str, use_python_export: bool = False) -> None: ...


Handler = Callable[[Any], None]


def tensorboard_trace_handler(
    dir_name: str | os.PathLike[str],
    worker_name: str | None = None,
    use_gzip: bool = False,
    use_python_export: bool = False,
) -> Handler:
    """Writes each cycle into a directory for `tensorboard --logdir`.

    Args:
        dir_name: the directory, made where it is missing.
        worker_name: unique among the workers that share it; None takes host and process.
        use_gzip: compress the files.
        use_python_export: torch's choice between two writers of its own; here there is one.

    Raises:
        RuntimeError: when a cycle is delivered, the directory cannot be made.
        OSError: then, the file cannot be written.
    """
    directory = os.fspath(dir_name)

    def handle(cycle: FinishedCycle) -> None:
        try:
            Path(directory).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RuntimeError(f"Can't create directory: {directory} ({error.strerror})") from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        ending = ".json.gz" if use_gzip else ".json"
        path = Path(directory) / f"{worker}.{time.time_ns()}.pt.trace{ending}"
        cycle.export_chrome_trace(str(path), use_python_export=use_python_export)

    return handle


def recording_handler(dir_name: str | os.PathLike[str]) -> Handler:
    """Saves the recording of each cycle in a directory, as `<host>_<process>.<ns since 1970>.tprof`.

    Args:
        dir_name: the directory, made where it is missing.

    Raises:
        OSError: when a cycle is delivered, it cannot be saved.
    """
    directory = Path(dir_name)

    def handle(cycle: FinishedCycle) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        recording = cycle.recording
        worker = f"{socket.gethostname()}_{os.getpid()}"
        recording.save(directory / f"{worker}.{recording.start_ns}.tprof")

    return handle


def otlp_trace_handler(
    *, timeout_s: float = DEFAULT_SEND_TIMEOUT_S, redact: RedactionHook | str | None = None
) -> Handler:
    """Sends each cycle as spans, to where `OTEL_TRACES_EXPORTER` and `OTEL_EXPORTER_OTLP_*` say.

    A handler is for one profile. It waits until a cycle is sent, at most `timeout_s`. Names of user scopes
    and string arguments pass `redact`, or the function that `OTEL_PYTHON_TORCHPROF_REDACT` names.

    Raises:
        ImportError: the extra `otlp` is not installed.
        SettingError: `redact`, or the variable, names no function.
    """
    from otel_torchprof.cycle_sender import CycleSender

    sender = CycleSender(timeout_s, redact)

    def handle(cycle: FinishedCycle) -> None:
        sender.send(cycle.recording)

    return handle
