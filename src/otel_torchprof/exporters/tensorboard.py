"""A run directory for TensorBoard's PyTorch profiler plugin: `tensorboard --logdir DIRECTORY`."""

from __future__ import annotations

import re
import socket
from pathlib import Path

from otel_torchprof.exporters import chrome
from otel_torchprof.recording import Recording

suffixes: tuple[str, ...] = ()

# The plugin reads the end of a worker's name as its number on the machine.
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


def export(recording: Recording, path: Path) -> dict[str, int]:
    """Adds the recording to the run `path`, as `<worker>.<milliseconds>.pt.trace.json.gz`.

    Args:
        path: the directory of the run, made where it is missing. Other workers and times in it are kept.
    """
    path.mkdir(parents=True, exist_ok=True)
    # The plugin's last release knows no newer category, and joins no kernel to its op without one.
    return chrome.write_trace(recording, path / file_name(recording), categories_of_2021=True)


def file_name(recording: Recording) -> str:
    """What the plugin takes worker and time from: two recordings of a worker at one time have one name."""
    host = _UNSAFE.sub("-", str(recording.metadata.get("host_name") or socket.gethostname())) or "worker"
    worker = f"{host}_{recording.process_id or recording.metadata.get('rank', 0)}"
    milliseconds = max(recording.start_ns, 0) // 1_000_000
    return f"{worker}.{milliseconds}.pt.trace.json.gz"
