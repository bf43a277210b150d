"""The memory of a recording on a terminal: the peak of each device and what it was for, and what rises."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from otel_torchprof.analysis.memory import DeviceMemory, LiveBlock, MemoryProfile, Share
from otel_torchprof.cli.table import ReportTable
from otel_torchprof.cli.text import NameCell, cell, duration, size
from otel_torchprof.recording import Recording

_MAX_ROWS = 8  # of each kind; --json has more
_MAX_FRAMES = 3
# Of `step (/home/me/project/train.py:7)` all but the last: `step (project/train.py:7)`.
_FOLDERS = re.compile(r"\((?:[^()]*[/\\])?([^/\\()]+[/\\][^/\\()]+\.py:\d+)(?=\))")


def print_memory(console: Console, recording: Recording) -> None:
    """Prints nothing for a recording without memory."""
    for memory in _devices(recording):
        peak = memory.peak
        console.print()
        console.print(
            cell(
                f"memory of {memory.device.name}: peak {size(peak.total_bytes)} "
                f"{duration(peak.time_ns - recording.start_ns)} after the start"
            )
        )
        used = sorted(peak.by_category.items(), key=lambda item: -item[1])
        categories = [(category.label, None, held) for category, held in used if held]
        console.print(_table("category", categories, peak.total_bytes))
        for heading, shares in (
            ("operator", peak.by_operator),
            ("module", peak.by_module),
            ("stack", peak.by_stack),
        ):
            if shares:
                rows = [(_innermost(share.name), share.blocks, share.size_bytes) for share in shares]
                console.print(_table(heading, rows[:_MAX_ROWS], peak.total_bytes))
                if len(rows) > _MAX_ROWS:
                    console.print(f"... {len(rows) - _MAX_ROWS} more (--json shows more)")
        _print_growth(console, memory)


def _innermost(name: str) -> str:
    """The innermost frames of a stack, on one line, with files by the end of their paths."""
    frames = [_FOLDERS.sub(r"(\1", frame) for frame in name.split("\n")]
    return " < ".join(frames[:_MAX_FRAMES]) + (" < ..." if len(frames) > _MAX_FRAMES else "")


def _table(heading: str, rows: Sequence[tuple[str, int | None, int]], whole_bytes: int) -> ReportTable:
    with_blocks = any(blocks is not None for _, blocks, _ in rows)
    numbers = (*(["blocks"] if with_blocks else []), "bytes", "share")
    table = ReportTable((f"at the peak, by {heading}",), numbers, last=("blocks", "share"))
    for name, blocks, held in rows:
        share = held / whole_bytes if whole_bytes else 0.0
        counted = [f"{blocks or 0:,}"] if with_blocks else []
        table.add_row(NameCell(name or "(none)"), *counted, size(held), f"{share:.1%}")
    return table


def _print_growth(console: Console, memory: DeviceMemory) -> None:
    growth = memory.growth
    if not growth.sites:
        return
    table = ReportTable(
        (f"rises over {growth.steps} steps, allocated in",),
        ("a step", "in use at the end", "blocks"),
        last=("blocks", "in use at the end"),
    )
    for site in growth.sites[:_MAX_ROWS]:
        where = _innermost("\n".join((site.operator, *site.stack)))
        held = (f"+{size(round(site.bytes_per_step))}", size(site.last_bytes), f"{site.blocks:,}")
        table.add_row(NameCell(where), *held)
    console.print(table)


def json_memory(recording: Recording) -> dict[str, Any]:
    """The same as JSON values, times as unix ns; nothing for a recording without memory."""
    devices = _devices(recording)
    return {"memory": [_json_device(memory) for memory in devices]} if devices else {}


def _json_device(memory: DeviceMemory) -> dict[str, Any]:
    peak, growth = memory.peak, memory.growth
    return {
        "device": memory.device.name,
        "peak": {
            "time_ns": peak.time_ns,
            "total_bytes": peak.total_bytes,
            "by_category": {category.name.lower(): held for category, held in peak.by_category.items()},
            "by_operator": [_json_share(share) for share in peak.by_operator],
            "by_module": [_json_share(share) for share in peak.by_module],
            "by_stack": [_json_share(share) for share in peak.by_stack],
            "largest": [_json_block(block) for block in peak.largest],
        },
        "growth": {
            "steps": growth.steps,
            "bytes_per_step": growth.bytes_per_step,
            "sites": [
                {
                    "operator": site.operator,
                    "module": site.module,
                    "names": list(site.names),
                    "stack": list(site.stack),
                    "bytes_per_step": site.bytes_per_step,
                    "first_bytes": site.first_bytes,
                    "last_bytes": site.last_bytes,
                    "blocks": site.blocks,
                }
                for site in growth.sites
            ],
        },
    }


def _json_share(share: Share) -> dict[str, Any]:
    return {"name": share.name, "size_bytes": share.size_bytes, "blocks": share.blocks}


def _json_block(block: LiveBlock) -> dict[str, Any]:
    return {
        "size_bytes": block.size_bytes,
        "address": block.address,
        "category": block.category.name.lower(),
        "name": block.name,
        "operator": block.operator,
        "module": block.module,
        "stack": list(block.stack),
        "allocated_ns": block.allocated_ns,
    }


def _devices(recording: Recording) -> list[DeviceMemory]:
    return MemoryProfile(recording).devices if len(recording.memory) else []
