"""Memory of devices as a recording last saw it, and requests that failed."""

from __future__ import annotations

import numpy as np

from otel_torchprof.metrics.device_metrics import device_attributes
from otel_torchprof.metrics.families import MetricFamily, NumberPoint
from otel_torchprof.recording import MemoryFlags, Recording
from otel_torchprof.semconv_metrics import DEVICE_MEMORY_USAGE, MEMORY_OOM, MEMORY_STATE, METRIC_BY_NAME

_CPU = 0  # c10::DeviceType::CPU


def memory_families(recording: Recording, start_unix_ns: int) -> list[MetricFamily]:
    """What the caching allocators of devices held; nothing where memory was not recorded."""
    records = recording.memory
    records = records[records["device_type"] != _CPU]
    usage: list[NumberPoint] = []
    failed: list[NumberPoint] = []
    for device in np.unique(records["device"]).tolist():
        of_device = records[records["device"] == device]
        attributes = device_attributes(device)
        allocated = of_device["total_allocated_bytes"][of_device["total_allocated_bytes"] >= 0]
        reserved = of_device["total_reserved_bytes"][of_device["total_reserved_bytes"] >= 0]
        for state, values in (("allocated", allocated[-1:]), ("reserved", reserved[-1:])):
            usage += [
                NumberPoint({**attributes, MEMORY_STATE: state}, value, start_unix_ns)
                for value in values.tolist()
            ]
        if len(allocated):
            usage.append(
                NumberPoint({**attributes, MEMORY_STATE: "peak"}, int(allocated.max()), start_unix_ns)
            )
        is_failed = of_device["flags"] & MemoryFlags.OUT_OF_MEMORY != 0
        if is_failed.any():
            failed.append(NumberPoint(attributes, int(is_failed.sum()), start_unix_ns))
    return [
        MetricFamily(METRIC_BY_NAME[DEVICE_MEMORY_USAGE], usage),
        MetricFamily(METRIC_BY_NAME[MEMORY_OOM], failed),
    ]
