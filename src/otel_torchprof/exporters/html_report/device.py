"""What ran on devices: kernels, copies, and when there was nothing to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.launches import WORK_KINDS
from otel_torchprof.exporters.html_report.coverage import Coverage
from otel_torchprof.exporters.html_report.names import UsedNames, shown
from otel_torchprof.exporters.html_report.tables import EventGroups, table
from otel_torchprof.recording import EventKind, Recording

_COPY_KINDS = (EventKind.MEMCPY, EventKind.MEMSET)
_MAX_GAPS = 8
Numbers = npt.NDArray[np.int64]


def device_busy(recording: Recording) -> Coverage:
    """When any device was busy."""
    rows = np.flatnonzero(np.isin(recording.events.kind, WORK_KINDS))
    return _cover(recording, rows)


def devices(recording: Recording) -> list[dict[str, Any]]:
    """Each device: when it was busy, in ns, and its longest pauses."""
    kind = recording.events.kind
    device_of_track = np.array([track.device for track in recording.tracks] or [0], dtype=np.int64)
    work = np.flatnonzero(np.isin(kind, WORK_KINDS))
    device_of_work = device_of_track[recording.events.track[work]]
    return [
        _device(recording, int(number), work[device_of_work == number])
        for number in np.unique(device_of_work)
    ]


def _device(recording: Recording, number: int, rows: Numbers) -> dict[str, Any]:
    kind = recording.events.kind[rows]
    busy = _cover(recording, rows)
    span_ns = int(busy.end_ns[-1] - busy.start_ns[0])
    gaps_ns = busy.start_ns[1:] - busy.end_ns[:-1]
    longest = np.argsort(-gaps_ns, kind="stable")[:_MAX_GAPS]
    return {
        "number": number,
        "model": _model(recording, number),
        "kernels": int((kind == EventKind.KERNEL).sum()),
        "copies": int(np.isin(kind, _COPY_KINDS).sum()),
        "span_ns": span_ns,
        "busy_ns": busy.total_ns,
        "kernel_ns": _cover(recording, rows[kind == EventKind.KERNEL]).total_ns,
        "copy_ns": _cover(recording, rows[np.isin(kind, _COPY_KINDS)]).total_ns,
        "idle_ns": span_ns - busy.total_ns,
        "gaps": len(gaps_ns),
        "longest_gaps": [
            [int(busy.end_ns[gap]) - recording.start_ns, int(gaps_ns[gap])] for gap in longest.tolist()
        ],
    }


def _cover(recording: Recording, rows: Numbers) -> Coverage:
    return Coverage(recording.events.start_ns[rows], recording.events.end_ns[rows])


def _model(recording: Recording, number: int) -> str:
    """What the device is called by its maker, if the recording says so."""
    kineto = recording.metadata.get("kineto")
    properties = kineto.get("deviceProperties") if isinstance(kineto, dict) else None
    for known in (properties, recording.metadata.get("device_properties")):
        for device in known if isinstance(known, list) else ():
            if (
                isinstance(device, dict)
                and device.get("id") == number
                and isinstance(device.get("name"), str)
            ):
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
    copies = by_time[np.isin(groups.kind[by_time], _COPY_KINDS)]
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
