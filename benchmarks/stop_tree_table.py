"""From a running capture to its averages table: stop, tree, table; per event, beside torch.profiler.

torch's side is measured on fewer events: its cost an event does not fall with their number, and a million of
them would take minutes.
"""

from __future__ import annotations

import time

import torch

from benchmarks.pairing import paired
from benchmarks.rows import Row, Target
from otel_torchprof.analysis.averages import averages
from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.capture_options import CaptureOptions

_OPS_A_CALL = 2  # aten::add_ and aten::mul_
_RECORDING_BYTES = 512 << 20


def _record(events: int) -> None:
    values = torch.ones(4)
    with torch.no_grad():
        for _ in range(events // _OPS_A_CALL):
            values.add_(1.0)
            values.mul_(0.5)


def _ours(events: int) -> float:
    capture = Capture(options=CaptureOptions(buffer_size_bytes=_RECORDING_BYTES))
    capture.start()
    _record(events)
    start_ns = time.perf_counter_ns()
    recording = capture.stop()
    table = averages(recording)
    elapsed_ns = time.perf_counter_ns() - start_ns
    calls = int(table.calls.sum())
    if calls < events:
        raise RuntimeError(
            f"{events} ops were run, {calls} are in the table (drops: {dict(recording.drops)})"
        )
    return elapsed_ns / calls


def _torch_profiler(events: int) -> float:
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    profiler.start()
    _record(events)
    start_ns = time.perf_counter_ns()
    profiler.stop()
    profiler.key_averages().table(row_limit=25)
    elapsed_ns = time.perf_counter_ns() - start_ns
    return elapsed_ns / events


def run(quick: bool) -> list[Row]:
    our_events, torch_events, repeats = (100_000, 10_000, 1) if quick else (1_000_000, 100_000, 3)
    _torch_profiler(1_000)  # what it does only once: imports, the library's own set-up
    figures = paired(lambda: _ours(our_events) / 1000, lambda: _torch_profiler(torch_events) / 1000, repeats)
    return [
        Row(
            f"stop -> tree -> averages table, {our_events:,} events",
            figures.a,
            "us/event",
            f"torch.profiler, {torch_events:,} events",
            figures.b,
            Target("at most", 0.4, of="ours"),
        )
    ]
