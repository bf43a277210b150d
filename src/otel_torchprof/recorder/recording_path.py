"""Where the recording of a window is saved."""

from __future__ import annotations

import os
import re
from pathlib import Path

from otel_torchprof.run_identity import RunIdentity


def recording_path(directory: Path, identity: RunIdentity, step: int) -> Path:
    """Return a path of its own for the window that begins with `step`.

    Args:
        directory: made when it is missing.
        identity: the run, whose id may hold any characters.
        step: number of the window's first step.

    Raises:
        OSError: the directory cannot be made.
    """
    directory.mkdir(parents=True, exist_ok=True)
    run = re.sub(r"[^A-Za-z0-9._-]", "_", identity.run_id).lstrip(".")
    return directory / f"{run}-{identity.restart}-rank{identity.rank}-{os.getpid()}-step{step}.tprof"
