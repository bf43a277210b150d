"""Our own recordings: an import kept for later, in the form that opens at once."""

from __future__ import annotations

from pathlib import Path

from otel_torchprof.recording import Recording

suffixes = (".tprof",)


def export(recording: Recording, path: Path) -> dict[str, int]:
    """Writes a `.tprof` file."""
    try:
        recording.save(path)
    except ValueError as error:
        raise OSError(str(error)) from None
    return {"events": len(recording), "size_bytes": path.stat().st_size}
