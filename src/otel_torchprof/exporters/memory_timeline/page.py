"""The timeline as one page that needs no other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from otel_torchprof.exporters.html_report.facts import facts
from otel_torchprof.exporters.html_report.memory import ShownMemory, memory
from otel_torchprof.exporters.html_report.names import shown
from otel_torchprof.exporters.html_report.page import make_memory_page
from otel_torchprof.exporters.output_file import OutputFile
from otel_torchprof.recording import Recording


def write_page(
    recording: Recording, path: Path, devices: Sequence[ShownMemory] | None = None
) -> dict[str, int]:
    """Writes the page; see `export`."""
    shown_memory = memory(recording, devices)
    page = make_memory_page(
        {"title": shown(path.name), "facts": facts(recording, {}), "memory": shown_memory}
    )
    with OutputFile(path) as file:
        file.write(page)
    shown_devices = shown_memory["devices"]
    return {
        "devices": len(shown_devices),
        "moments": sum(len(device["times_ns"]) for device in shown_devices),
        "peak_bytes": max((device["peak_bytes"] for device in shown_devices), default=0),
        "size_bytes": file.size_bytes,
    }
