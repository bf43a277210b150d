"""Memory over time by category: an interactive page, or what torch's `export_memory_timeline` writes.

The name of the file tells which: `.html`, `.json` (times and sizes by category), `.raw.json` (each change),
both also with `.gz`.
"""

from __future__ import annotations

from pathlib import Path

from otel_torchprof.errors import NothingToWriteError, TorchprofError
from otel_torchprof.exporters.memory_timeline.levels import memory_of_devices
from otel_torchprof.exporters.memory_timeline.page import write_page
from otel_torchprof.exporters.memory_timeline.torch_json import write_raw, write_totals
from otel_torchprof.recording import Recording

# None of them is `.json` or `.html` alone, which are names of other formats too.
suffixes = (
    ".memory.html",
    ".memory.json",
    ".memory.json.gz",
    ".memory.raw.json",
    ".memory.raw.json.gz",
)


def export(recording: Recording, path: Path) -> dict[str, int]:
    """Writes the timeline. The JSON forms hold one device, the one with the highest peak; the page holds all.

    Returns:
        `devices`, `moments` or `changes`, `peak_bytes`, `size_bytes`.

    Raises:
        TorchprofError: the name of the file does not tell the form.
        NothingToWriteError: the recording does not tell of any memory in use.
    """
    name = path.name.lower().removesuffix(".gz")
    is_page = name.endswith(".html") and not path.name.lower().endswith(".gz")
    if not is_page and not name.endswith(".json"):
        raise TorchprofError(
            f"{path.name!r} does not tell the form: end it in .html, .json[.gz] or .raw.json[.gz]"
        )
    if not len(recording.memory):
        raise NothingToWriteError(f"{path} is not written: no memory recorded (profile_memory records it)")
    devices = memory_of_devices(recording)
    if not devices:
        raise NothingToWriteError(
            f"{path} is not written: none of {len(recording.memory):,} memory events says what was allocated"
        )
    if is_page:
        return write_page(recording, path, devices)
    if name.endswith(".raw.json"):
        return write_raw(devices, path)
    return write_totals(devices, path)
