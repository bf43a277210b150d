"""Snapshots of the CUDA allocator, as `torch.cuda.memory._snapshot()` returns them, made by hand."""

from __future__ import annotations

from typing import Any

BASE = 0x7F0000000000
START_US = 1_700_000_000_000_000


def frame(name: str, line: int = 1, filename: str = "/app/train.py") -> dict[str, Any]:
    return {"name": name, "filename": filename, "line": line}


def stack(*names: str) -> list[dict[str, Any]]:
    """Frames of Python functions, innermost first."""
    return [frame(name, place) for place, name in enumerate(names, 1)]


def entry(action: str, at_us: int, address: int = 0, size: int = 0, **more: Any) -> dict[str, Any]:
    """One record of a trace, `at_us` after `START_US`; addresses count from `BASE`."""
    made = {"action": action, "addr": BASE + address, "size": size, "stream": 0, "time_us": START_US + at_us}
    return {**made, "frames": [], **more}


def block(size: int, state: str = "active_allocated", **more: Any) -> dict[str, Any]:
    return {"size": size, "requested_size": size, "state": state, "frames": [], **more}


def segment(address: int, *blocks: dict[str, Any], device: int = 0, **more: Any) -> dict[str, Any]:
    in_use = [piece["size"] for piece in blocks if piece["state"] == "active_allocated"]
    active = [piece["size"] for piece in blocks if piece["state"].startswith("active")]
    made: list[dict[str, Any]] = []
    at = BASE + address
    for piece in blocks:
        made.append({"address": at, **piece})
        at += piece["size"]
    return {
        "device": device,
        "address": BASE + address,
        "total_size": sum(piece["size"] for piece in blocks),
        "allocated_size": sum(in_use),
        "active_size": sum(active),
        "requested_size": sum(in_use),
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "blocks": made,
        **more,
    }


def snapshot(
    segments: list[dict[str, Any]], *traces: list[dict[str, Any]], annotations: Any = ()
) -> dict[str, Any]:
    return {
        "segments": segments,
        "device_traces": list(traces),
        "allocator_settings": {"expandable_segments": False, "roundup_power2_divisions": {"1": 0}},
        "external_annotations": list(annotations),
    }


def training_snapshot() -> dict[str, Any]:
    """4,096 bytes from before, 1,024 of a forward pass that are freed, 4,096 of a backward pass that stay."""
    trace = [
        entry("segment_alloc", 0, 0x10000, 8192),
        entry("alloc", 1, 0x10000, 1024, frames=stack("relu", "forward", "<module>")),
        entry("alloc", 2, 0x11000, 4096, frames=stack("backward", "<module>")),
        entry("free_requested", 3, 0x10000, 1024),
        entry("free_completed", 3, 0x10000, 1024),
    ]
    return snapshot(
        [
            segment(0, block(4096, frames=stack("__init__", "<module>")), block(2048, "inactive")),
            segment(0x10000, block(4096, "inactive"), block(4096)),
        ],
        trace,
    )
