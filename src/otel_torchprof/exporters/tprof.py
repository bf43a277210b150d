"""Our own recordings: an import kept for later, in the form that opens at once."""

from __future__ import annotations

import os

from otel_torchprof.recording import Recording

suffixes = (".tprof",)


def export(recording: Recording, path: str) -> dict[str, int]:
    """Writes a `.tprof` file."""
    try:
        recording.save(path)
    except ValueError as error:
        raise OSError(str(error)) from None
    return {"events": len(recording), "size_bytes": os.stat(path).st_size}
