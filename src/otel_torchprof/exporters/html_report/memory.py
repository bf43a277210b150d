"""Memory over time and at its peak, of each device, reduced to what the page shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from otel_torchprof.analysis.memory import (
    Category,
    Device,
    Growth,
    MemoryEvents,
    MemoryProfile,
    Peak,
    Share,
    Timeline,
    condense,
)
from otel_torchprof.exporters.html_report.names import shown
from otel_torchprof.recording import Recording

MAX_MOMENTS = 2000
MAX_DEVICES = 16
MAX_SHARES = 12
MAX_FRAMES = 40
MAX_STEPS = 400


class ShownMemory(Protocol):
    """The memory of a device, as much as is known of it."""

    @property
    def device(self) -> Device: ...
    @property
    def events(self) -> MemoryEvents: ...
    @property
    def timeline(self) -> Timeline: ...
    @property
    def peak(self) -> Peak: ...
    @property
    def growth(self) -> Growth: ...


def memory(recording: Recording, devices: Sequence[ShownMemory] | None = None) -> dict[str, Any]:
    """What the page shows of memory; no `devices` where none was recorded. Times count from the start.

    Args:
        devices: the one with the highest peak first; those whose blocks are known where None is given.
    """
    if devices is None:
        devices = MemoryProfile(recording).devices if len(recording.memory) else []
    return {
        "categories": [category.label for category in Category],
        "devices": [_device(recording, device) for device in devices[:MAX_DEVICES]],
        "left_out": max(len(devices) - MAX_DEVICES, 0),
        "step_ends_ns": [step.end_ns - recording.start_ns for step in recording.steps[:MAX_STEPS]],
    }


def _device(recording: Recording, memory: ShownMemory) -> dict[str, Any]:
    start_ns, peak, growth = recording.start_ns, memory.peak, memory.growth
    line = condense(memory.timeline, MAX_MOMENTS, start_ns, recording.end_ns)
    return {
        "name": memory.device.name,
        "times_ns": (line.time_ns - start_ns).tolist(),
        "bytes": line.bytes_by_category.T.tolist(),
        "peak_ns": peak.time_ns - start_ns,
        "peak_bytes": peak.total_bytes,
        "peak_by_category": [peak.by_category[category] for category in Category],
        "by_operator": _shares(peak.by_operator),
        "by_module": _shares(peak.by_module),
        "by_stack": _shares(peak.by_stack),
        "largest": [
            {
                "size_bytes": block.size_bytes,
                "category": int(block.category),
                "name": shown(block.name) if block.name else "",
                "operator": shown(block.operator),
                "module": shown(block.module) if block.module else "",
                "stack": [shown(frame) for frame in block.stack[:MAX_FRAMES]],
                "allocated_ns": block.allocated_ns - start_ns,
            }
            for block in peak.largest
        ],
        "growth": {
            "steps": growth.steps,
            "bytes_per_step": growth.bytes_per_step,
            "sites": [
                {
                    "operator": shown(site.operator),
                    "module": shown(site.module) if site.module else "",
                    "stack": [shown(frame) for frame in (site.stack or site.names[::-1])[:MAX_FRAMES]],
                    "bytes_per_step": site.bytes_per_step,
                    "first_bytes": site.first_bytes,
                    "last_bytes": site.last_bytes,
                    "blocks": site.blocks,
                }
                for site in growth.sites
            ],
        },
    }


def _shares(shares: list[Share]) -> list[dict[str, Any]]:
    """The largest, and the rest as one."""
    rows = [
        {
            "frames": [shown(frame) for frame in share.name.split("\n")[:MAX_FRAMES]] if share.name else [],
            "size_bytes": share.size_bytes,
            "blocks": share.blocks,
        }
        for share in shares[:MAX_SHARES]
    ]
    rest = shares[MAX_SHARES:]
    if rest:
        rows.append(
            {
                "frames": [f"{len(rest)} more"],
                "size_bytes": sum(share.size_bytes for share in rest),
                "blocks": sum(share.blocks for share in rest),
            }
        )
    return rows
