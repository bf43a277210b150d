"""What ran on devices: kernels, copies, and when there was nothing to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.coverage import Coverage
from otel_torchprof.analysis.device_properties import device_properties
from otel_torchprof.analysis.device_use import COPY_KINDS, blocking_calls, device_uses
from otel_torchprof.analysis.launches import WORK_KINDS
from otel_torchprof.exporters.html_report.names import UsedNames, shown
from otel_torchprof.exporters.html_report.tables import MAX_TABLE_ROWS, EventGroups, table
from otel_torchprof.recording import EventKind, Recording

Numbers = npt.NDArray[np.int64]


def device_busy(recording: Recording) -> Coverage:
    """When any device was busy."""
    rows = np.flatnonzero(np.isin(recording.events.kind, WORK_KINDS))
    return Coverage(recording.events.start_ns[rows], recording.events.end_ns[rows])


def devices(recording: Recording) -> list[dict[str, Any]]:
    """Each device: when it was busy, in ns, and its longest pauses."""
    return [
        {
            "number": use.number,
            "model": _model(recording, use.number),
            "kernels": use.kernels,
            "copies": use.copies,
            "span_ns": use.span_ns,
            "busy_ns": use.busy_ns,
            "kernel_ns": use.kernel_ns,
            "copy_ns": use.copy_ns,
            "idle_ns": use.idle_ns,
            "launch_wait_ns": use.launch_wait_ns,
            "launched_kernels": use.launched_kernels,
            "late_kernels": use.late_kernels,
            "gaps": use.pauses,
            "longest_gaps": [
                [pause.start_ns - recording.start_ns, pause.duration_ns] for pause in use.longest_pauses
            ],
        }
        for use in device_uses(recording)
    ]


def blocking(recording: Recording) -> dict[str, Any]:
    """Calls in which threads waited for devices: the `MAX_TABLE_ROWS` longest by call and caller."""
    found = blocking_calls(recording)
    return {
        "rows": [
            {
                "call": shown(one.call),
                "caller": shown(one.caller) if one.caller else "",
                "calls": one.calls,
                "total_ns": one.total_ns,
                "longest_ns": one.longest_ns,
            }
            for one in found[:MAX_TABLE_ROWS]
        ],
        "left_out": max(len(found) - MAX_TABLE_ROWS, 0),
    }


def _model(recording: Recording, number: int) -> str:
    """What the device is called by its maker, if the recording says so."""
    for device in device_properties(recording):
        if device.get("id") == number and isinstance(device.get("name"), str):
            return shown(device["name"])
    return ""


def device_tables(recording: Recording, groups: EventGroups, used: UsedNames) -> dict[str, Any]:
    """Kernels by name, and copies by kind with the bytes they moved."""
    events = recording.events
    duration_ns = events.end_ns - events.start_ns
    longest_ns = np.zeros(len(groups), dtype=np.int64)
    np.maximum.at(longest_ns, groups.group_of_row, duration_ns)
    size_bytes, sized = _copied(recording, groups)
    # What ran side by side counts in full, so that a name's time does not depend on its neighbours.
    time_ns = groups.sum_of_rows(np.where(np.isin(events.kind, WORK_KINDS), duration_ns, 0))
    by_time = np.argsort(-time_ns, kind="stable")
    more = {"self_ns": time_ns, "total_ns": time_ns, "longest_ns": longest_ns}
    copies = by_time[np.isin(groups.kind[by_time], COPY_KINDS)]
    return {
        "kernels": table(groups, used, by_time[groups.kind[by_time] == EventKind.KERNEL], more),
        "copies": table(groups, used, copies, more | {"size_bytes": size_bytes, "sized_calls": sized}),
    }


def _copied(recording: Recording, groups: EventGroups) -> tuple[Numbers, Numbers]:
    """By group: bytes copied or set, and the calls whose bytes are known."""
    records = recording.devices
    records = records[records["size_bytes"] >= 0]
    group = groups.group_of_row[records["event"].astype(np.int64)]
    size_bytes = np.zeros(len(groups), dtype=np.int64)
    np.add.at(size_bytes, group, records["size_bytes"])
    return size_bytes, np.bincount(group, minlength=len(groups)).astype(np.int64)
