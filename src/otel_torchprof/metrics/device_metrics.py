"""Devices of a recording: kernels, copies, how busy they were, and how long work waited to begin."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.device_work import DeviceWork
from otel_torchprof.analysis.event_names import names_of, short_kernel_name
from otel_torchprof.analysis.launches import launches
from otel_torchprof.metrics.families import MetricFamily, NumberPoint
from otel_torchprof.metrics.grouped_sums import grouped_sums
from otel_torchprof.metrics.histogram_family import histogram_family
from otel_torchprof.metrics.intervals import union_ns
from otel_torchprof.metrics.named_events import CALLS, NamedEvents
from otel_torchprof.recording import EventKind, Recording
from otel_torchprof.semconv_metrics import (
    CUDA_DEVICE_INDEX,
    DEVICE_BUSY_TIME,
    DEVICE_WORK,
    KERNEL_DURATION,
    KERNEL_LAUNCH_DELAY,
    KERNEL_LAUNCHES,
    KERNEL_NAME,
    KERNEL_TIME,
    MEMCPY_KIND,
    MEMCPY_SIZE,
    MEMCPY_TIME,
    METRIC_BY_NAME,
)

Numbers: TypeAlias = npt.NDArray[np.int64]

_TIME, _SIZE = CALLS + 1, CALLS + 2
_NS_PER_S = 1_000_000_000
_CALL_KINDS = (EventKind.RUNTIME, EventKind.DRIVER)
# As CUDA's activity names them, and as ROCm's did.
_COPY = re.compile(r"Memcpy (HtoD|DtoH|DtoD|HtoH|PtoP)\b")
_ROCM_COPIES = {
    "CopyHostToDevice": "HtoD",
    "CopyDeviceToHost": "DtoH",
    "CopyDeviceToDevice": "DtoD",
}
_MEMSET = "memset"
_OTHER_COPY = "other"


def device_families(
    recording: Recording, start_unix_ns: int, *, durations: bool = False
) -> list[MetricFamily]:
    """What devices did; work that has not ended is left out.

    Args:
        durations: make the histogram of kernels, too.
    """
    work = DeviceWork.of(recording)
    kernels = work.where(work.kind == EventKind.KERNEL)
    return [
        *_kernel_families(kernels, start_unix_ns, durations=durations),
        _launch_delay(kernels, start_unix_ns),
        *_copy_families(work.where(work.kind != EventKind.KERNEL), start_unix_ns),
        _busy_time(work, start_unix_ns),
    ]


def device_attributes(device: int) -> Mapping[str, str | int]:
    """The attribute that names a device; none where it is not known (-1)."""
    return {CUDA_DEVICE_INDEX: device} if device >= 0 else {}


def _by_device(work: DeviceWork) -> tuple[list[Mapping[str, str | int]], Numbers]:
    """The attributes of each device, and for each piece of work which they are."""
    devices, place = np.unique(work.device, return_inverse=True)
    return [device_attributes(device) for device in devices.tolist()], place.reshape(-1)


def _kernel_families(kernels: DeviceWork, start_unix_ns: int, *, durations: bool) -> list[MetricFamily]:
    name, names = names_of(kernels.recording, kernels.rows, short_kernel_name)
    groups, group = _by_device(kernels)
    named = NamedEvents(
        KERNEL_NAME,
        names,
        name,
        groups,
        group,
        [kernels.duration_ns],
        weight=_TIME,
        start_unix_ns=start_unix_ns,
    )
    families = [
        named.counter(KERNEL_LAUNCHES, CALLS),
        named.counter(KERNEL_TIME, _TIME, per_unit=_NS_PER_S),
    ]
    if durations:
        families.append(named.histogram(KERNEL_DURATION, kernels.duration_ns))
    return families


def _launch_delay(kernels: DeviceWork, start_unix_ns: int) -> MetricFamily:
    """A kernel that began before the call that launched it was over did not wait."""
    events = kernels.recording.events
    call, work = launches(kernels.recording)
    of_runtime = np.isin(events.kind[call], _CALL_KINDS)
    call_of_row = np.full(len(kernels.recording), -1, dtype=np.int64)
    call_of_row[work[of_runtime]] = call[of_runtime]
    launched = kernels.where(call_of_row[kernels.rows] >= 0)
    delay_ns = launched.start_ns - events.end_ns[call_of_row[launched.rows]]
    groups, group = _by_device(launched)
    return histogram_family(KERNEL_LAUNCH_DELAY, np.maximum(delay_ns, 0), group, groups, start_unix_ns)


def copy_kind(name: str) -> str:
    """The direction of a copy, or `memset`, by the name that its activity has."""
    found = _COPY.match(name)
    if found:
        return found[1]
    if name.startswith("Memset") or name == "FillBuffer":
        return _MEMSET
    return _ROCM_COPIES.get(name, _OTHER_COPY)


def _copy_families(copies: DeviceWork, start_unix_ns: int) -> list[MetricFamily]:
    kind, kinds = names_of(copies.recording, copies.rows, copy_kind)
    sums = grouped_sums([kind, copies.device], [copies.duration_ns, copies.size_bytes])
    points: dict[str, list[NumberPoint]] = {MEMCPY_TIME: [], MEMCPY_SIZE: []}
    for (kind_index, device), values in sums.items():
        attributes = {MEMCPY_KIND: kinds[kind_index], **device_attributes(device)}
        points[MEMCPY_TIME].append(NumberPoint(attributes, values[_TIME] / _NS_PER_S, start_unix_ns))
        points[MEMCPY_SIZE].append(NumberPoint(attributes, values[_SIZE], start_unix_ns))
    return [MetricFamily(METRIC_BY_NAME[metric], of_metric) for metric, of_metric in points.items()]


def _busy_time(work: DeviceWork, start_unix_ns: int) -> MetricFamily:
    is_kernel = work.kind == EventKind.KERNEL
    parts = (
        ("compute", work.where(is_kernel & ~work.is_collective)),
        ("copy", work.where(~is_kernel)),
        ("collective", work.where(work.is_collective)),
        ("any", work),
    )
    points = [
        NumberPoint({**device_attributes(device), DEVICE_WORK: part}, busy_ns / _NS_PER_S, start_unix_ns)
        for part, of_part in parts
        for device, busy_ns in _busy_ns(of_part)
    ]
    return MetricFamily(METRIC_BY_NAME[DEVICE_BUSY_TIME], points)


def _busy_ns(work: DeviceWork) -> Sequence[tuple[int, int]]:
    """Devices, and how long each was at work."""
    order = np.argsort(work.device, kind="stable")
    devices, first = np.unique(work.device[order], return_index=True)
    rows_of_device = np.split(order, first[1:])
    return [
        (device, union_ns(work.start_ns[rows], work.end_ns[rows]))
        for device, rows in zip(devices.tolist(), rows_of_device, strict=False)
    ]
