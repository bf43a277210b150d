"""`export_stacks`: folded stacks by a metric of torch's."""

from __future__ import annotations

from pathlib import Path

from otel_torchprof.exporters import stacks
from otel_torchprof.profiling.event_list import stack_metric
from otel_torchprof.profiling.event_rows import EventRows


def export_stacks(rows: EventRows, path: Path, metric: str) -> None:
    """Writes the stacks of threads, weighted by their own time or by that of the device work they launched.

    Raises:
        ValueError: there is no such metric.
        OSError: it cannot be written.
    """
    if stack_metric(metric) == "self_cpu_time_total":
        stacks.export(rows.recording, path)
    else:
        stacks.export_weighted(rows.recording, path, rows.self_device_ns[: len(rows.recording)])
