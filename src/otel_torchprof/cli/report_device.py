"""Devices in `otel-torchprof report`: how busy, with what work, and who waited for whom."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console

from otel_torchprof.analysis.device_use import DeviceUse, blocking_calls, device_uses
from otel_torchprof.analysis.device_work import DeviceWork
from otel_torchprof.analysis.work_totals import WorkTotal, name_work
from otel_torchprof.cli.table import ReportTable
from otel_torchprof.cli.text import NameCell, cell, duration
from otel_torchprof.recording import EventKind, Recording

_MAX_WAITS = 10  # --json has them all


def print_devices(console: Console, recording: Recording) -> None:
    """Prints nothing for a recording without work on devices."""
    uses = device_uses(recording)
    if not uses:
        return
    console.print()
    for use in uses:
        console.print(cell(_sentence(use)))
    _print_blocking(console, recording)


def json_devices(recording: Recording) -> dict[str, Any]:
    """The same as JSON values; nothing for a recording without work on devices."""
    uses = device_uses(recording)
    if not uses:
        return {}
    work = DeviceWork.of(recording)
    kernels = work.where(work.kind == EventKind.KERNEL)
    return {
        "devices": [{**asdict(use), "idle_ns": use.idle_ns} for use in uses],
        "kernels": [_json_total(total) for total in name_work(kernels).totals],
        "blocking_calls": [asdict(one) for one in blocking_calls(recording)],
    }


def _json_total(total: WorkTotal) -> dict[str, Any]:
    names = ("name", "calls", "total_ns", "longest_ns")
    return {name: getattr(total, name) for name in names}


def print_work(console: Console, recording: Recording, steps: Collection[int] | None, limit: int) -> None:
    """Prints kernels, copies and fills by name, at most `limit` (0 = all), and their time in all.

    Args:
        steps: numbers of the steps in which those begin that count; None = all do.
    """
    work = DeviceWork.of(recording)
    if steps is not None:
        work = work.where(_begins_in(recording, work, steps))
    totals = name_work(work).totals
    if not totals:
        return
    whole_ns = sum(total.total_ns for total in totals)
    table = ReportTable(
        ("on devices",),
        ("calls", "total", "mean", "longest", "share"),
        spare=("longest", "mean"),
        last=("share",),
    )
    for total in totals[:limit] if limit else totals:
        table.add_row(
            NameCell(total.name),
            f"{total.calls:,}",
            duration(total.total_ns),
            duration(total.total_ns / total.calls),
            duration(total.longest_ns),
            f"{total.total_ns / whole_ns if whole_ns else 0.0:.1%}",
        )
    console.print()
    console.print(table)
    if limit and len(totals) > limit:
        console.print(f"... {len(totals) - limit} more names (--limit 0 shows all)")
    of = "; share is of their" if table.shows("share", console.width) else ","
    console.print(f"kernels, copies and fills: {len(work.rows):,}{of} {duration(whole_ns)}")


def _begins_in(recording: Recording, work: DeviceWork, steps: Collection[int]) -> npt.NDArray[np.bool_]:
    begins = np.zeros(len(work.rows), dtype=bool)
    for step in recording.steps:
        if step.number in steps:
            begins |= (work.start_ns >= step.start_ns) & (work.start_ns < step.end_ns)
    return begins


def _sentence(use: DeviceUse) -> str:
    number = f" {use.number}" if use.number >= 0 else ""
    work = f"kernels {_share(use.kernel_ns, use)}, copies {_share(use.copy_ns, use)}"
    parts = [f"{_share(use.busy_ns, use)} busy ({work})", f"{_share(use.idle_ns, use)} idle"]
    if use.launched_kernels:
        late = (
            f"{use.late_kernels:,} of {use.launched_kernels:,} kernels launched when the device had run dry"
        )
        parts.append(f"{_share(use.launch_wait_ns, use)} waiting for launches ({late})")
    return f"device{number}: {', '.join(parts)} of {duration(use.span_ns)}"


def _share(part_ns: int, use: DeviceUse) -> str:
    return f"{part_ns / use.span_ns if use.span_ns else 0.0:.1%}"


def _print_blocking(console: Console, recording: Recording) -> None:
    found = blocking_calls(recording)
    if not found:
        return
    table = ReportTable(
        ("waited for a device in", "called by"),
        ("calls", "total", "longest"),
        spare=("longest", "calls", "called by"),
    )
    for one in found[:_MAX_WAITS]:
        table.add_row(
            NameCell(one.call),
            NameCell(one.caller),
            f"{one.calls:,}",
            duration(one.total_ns),
            duration(one.longest_ns),
        )
    console.print()
    console.print(table)
    if len(found) > _MAX_WAITS:
        console.print(f"... {len(found) - _MAX_WAITS} more waits (--json shows all)")
