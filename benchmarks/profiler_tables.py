"""What `profile` makes of a stopped recording: the averages table and the events, beside torch's.

torch's side is measured on fewer events: its cost an event does not fall with their number.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from benchmarks.pairing import paired
from benchmarks.rows import Row
from otel_torchprof.profiler import ProfilerActivity, profile

_RECORDING_BYTES = 512 << 20


def _ours(events: int) -> Any:
    return _recorded(profile(activities=[ProfilerActivity.CPU], buffer_size_bytes=_RECORDING_BYTES), events)


def _torchs(events: int) -> Any:
    return _recorded(torch.profiler.profile(activities=[ProfilerActivity.CPU]), events)


def _recorded(prof: Any, events: int) -> Any:
    values = torch.ones(4)
    with prof, torch.no_grad():
        for _ in range(events):
            values.add_(1.0)
    return prof


def _averages_table(prof: Any) -> None:
    prof.key_averages().table(row_limit=25)


def _all_events(prof: Any) -> None:
    for event in prof.events():
        _ = event.name, event.self_cpu_time_total


def _measure(record: Callable[[int], Any], events: int, work: Callable[[Any], None]) -> float:
    """Microseconds an event that `work` takes, without recording."""
    prof = record(events)
    start_ns = time.perf_counter_ns()
    work(prof)
    return (time.perf_counter_ns() - start_ns) / 1000 / events


def run(quick: bool) -> list[Row]:
    sizes, torch_events, repeats = ((20_000,), 2_000, 1) if quick else ((200_000, 1_000_000), 30_000, 3)
    _measure(_torchs, 100, _averages_table)  # what it does only once
    rows: list[Row] = []
    for what, work in (("key_averages().table()", _averages_table), ("events(), each read", _all_events)):
        for events in sizes:
            figures = paired(
                partial(_measure, _ours, events, work),
                partial(_measure, _torchs, torch_events, work),
                repeats,
            )
            rows.append(
                Row(
                    f"{what}, {events:,} events",
                    figures.a,
                    "us/event",
                    f"torch.profiler, {torch_events:,} events",
                    figures.b,
                )
            )
    return rows
