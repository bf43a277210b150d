"""Devices in `otel-torchprof report`: how busy, with which kernels, and who waited for whom."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.console import Console

from otel_torchprof.analysis.device_use import DeviceUse, blocking_calls, device_uses
from otel_torchprof.cli_text import NameCell, cell, duration, make_table
from otel_torchprof.metrics.device_work import DeviceWork
from otel_torchprof.metrics.event_names import names_of, short_kernel_name
from otel_torchprof.recording import EventKind, Recording

_MAX_ROWS = 10  # of each kind; --json has them all


@dataclass(frozen=True, slots=True)
class KernelTotal:
    """All runs of the kernels of one short name."""

    name: str
    calls: int
    total_ns: int
    longest_ns: int


def print_devices(console: Console, recording: Recording) -> None:
    """Prints nothing for a recording without work on devices."""
    uses = device_uses(recording)
    if not uses:
        return
    console.print()
    for use in uses:
        console.print(cell(_sentence(use)))
    _print_kernels(console, recording)
    _print_blocking(console, recording)


def json_devices(recording: Recording) -> dict[str, Any]:
    """The same as JSON values; nothing for a recording without work on devices."""
    uses = device_uses(recording)
    if not uses:
        return {}
    return {
        "devices": [{**asdict(use), "idle_ns": use.idle_ns} for use in uses],
        "kernels": [asdict(total) for total in kernel_totals(recording)],
        "blocking_calls": [asdict(one) for one in blocking_calls(recording)],
    }


def kernel_totals(recording: Recording) -> list[KernelTotal]:
    """Kernels by short name, the longest in total first."""
    work = DeviceWork.of(recording)
    kernels = work.where(work.kind == EventKind.KERNEL)
    name, names = names_of(recording, kernels.rows, short_kernel_name)
    calls = np.bincount(name, minlength=len(names))
    total_ns, longest_ns = np.zeros((2, len(names)), dtype=np.int64)
    np.add.at(total_ns, name, kernels.duration_ns)
    np.maximum.at(longest_ns, name, kernels.duration_ns)
    totals = [
        KernelTotal(*row)
        for row in zip(names, calls.tolist(), total_ns.tolist(), longest_ns.tolist(), strict=True)
    ]
    return sorted(totals, key=lambda total: (-total.total_ns, total.name))


def _sentence(use: DeviceUse) -> str:
    number = f" {use.number}" if use.number >= 0 else ""
    work = f"kernels {_share(use.kernel_ns, use)}, copies {_share(use.copy_ns, use)}"
    parts = [f"{_share(use.busy_ns, use)} busy ({work})", f"{_share(use.idle_ns, use)} idle"]
    if use.launched_kernels:
        late = (
            f"{use.late_kernels:,} of {use.launched_kernels:,} kernels launched when their stream had run dry"
        )
        parts.append(f"{_share(use.launch_wait_ns, use)} waiting for launches ({late})")
    return f"device{number}: {', '.join(parts)} of {duration(use.span_ns)}"


def _share(part_ns: int, use: DeviceUse) -> str:
    return f"{part_ns / use.span_ns if use.span_ns else 0.0:.1%}"


def _print_kernels(console: Console, recording: Recording) -> None:
    totals = kernel_totals(recording)
    if not totals:
        return
    whole_ns = sum(total.total_ns for total in totals)
    table = make_table(("kernel",), ("calls", "total", "mean", "longest", "share"))
    for total in totals[:_MAX_ROWS]:
        table.add_row(
            NameCell(total.name),
            f"{total.calls:,}",
            duration(total.total_ns),
            duration(total.total_ns / total.calls),
            duration(total.longest_ns),
            f"{total.total_ns / whole_ns if whole_ns else 0.0:.1%}",
        )
    console.print(table)
    _print_left(console, len(totals), "kernels")


def _print_blocking(console: Console, recording: Recording) -> None:
    found = blocking_calls(recording)
    if not found:
        return
    table = make_table(("waited for a device in", "called by"), ("calls", "total", "longest"))
    for one in found[:_MAX_ROWS]:
        table.add_row(
            NameCell(one.call),
            NameCell(one.caller),
            f"{one.calls:,}",
            duration(one.total_ns),
            duration(one.longest_ns),
        )
    console.print()
    console.print(table)
    _print_left(console, len(found), "waits")


def _print_left(console: Console, rows: int, what: str) -> None:
    if rows > _MAX_ROWS:
        console.print(f"... {rows - _MAX_ROWS} more {what} (--json shows all)")
