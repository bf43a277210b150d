"""Chrome JSON: our export beside Kineto's of the same loop, and ours of many events."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch

from benchmarks.pairing import elapsed_ns, paired
from benchmarks.rows import Row, Target
from otel_torchprof.exporters import export
from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.capture_options import CaptureOptions
from otel_torchprof.recording import Recording, RecordingBuilder

_RECORDING_BYTES = 256 << 20


def _work(iterations: int) -> None:
    """Forward and backward of a small model: nested ops, sequence numbers, flows."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    inputs = torch.ones(4, 8)
    for _ in range(iterations):
        model(inputs).sum().backward()


def _recorded(iterations: int) -> Recording:
    capture = Capture(options=CaptureOptions(buffer_size_bytes=_RECORDING_BYTES))
    capture.start()
    _work(iterations)
    return capture.stop()


def _profiled(iterations: int) -> torch.profiler.profile:
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    with profiler:
        _work(iterations)
    return profiler


def _many(events: int) -> Recording:
    builder = RecordingBuilder()
    builder.add_track("main", thread_id=1, torch_thread_id=1)
    names = [builder.add_name(name, "Tensor") for name in ("aten::add", "aten::mul", "aten::linear")]
    index = np.arange(events)
    start_ns = 1_700_000_000_000_000_000 + 5_000 * index
    builder.add_events(np.take(names, index % 3), start_ns, start_ns + 4_321, index * 0, sequence=index)
    return builder.finish()


def run(quick: bool) -> list[Row]:
    iterations, many, repeats = (200, 20_000, 2) if quick else (2_000, 1_000_000, 5)
    _profiled(1)  # what it does only once: imports, the library's own set-up
    recording, profiler = _recorded(iterations), _profiled(iterations)
    with tempfile.TemporaryDirectory() as folder:
        ours, kinetos = Path(folder) / "ours.json", Path(folder) / "kineto.json"

        def our_export() -> float:
            return elapsed_ns(lambda: export(recording, ours)) / len(recording) / 1000

        # Kineto hands its trace out once, so that each run needs one of its own.
        def kineto_export() -> float:
            nonlocal profiler
            start_ns = time.perf_counter_ns()
            profiler.export_chrome_trace(str(kinetos))
            spent_ns = time.perf_counter_ns() - start_ns
            profiler = _profiled(iterations)
            return spent_ns / len(recording) / 1000

        figures = paired(our_export, kineto_export, repeats)
        our_bytes = ours.stat().st_size / _slices(ours)
        kineto_bytes = kinetos.stat().st_size / _slices(kinetos)
        large = _many(many)
        per_event_us = median(elapsed_ns(lambda: export(large, ours)) for _ in range(repeats)) / many / 1000
    at_most_half = Target("at most", 0.5, of="ours")
    return [
        Row("Chrome JSON", figures.a, "us/event", "Kineto", figures.b, at_most_half),
        Row("Chrome JSON", our_bytes, "B/event", "Kineto", kineto_bytes, Target("at most", 287, of="ours")),
        Row(
            f"Chrome JSON, {many:,} events",
            per_event_us,
            "us/event",
            target=Target("at most", 0.5, of="ours"),
        ),
    ]


def _slices(path: Path) -> int:
    return sum(event["ph"] == "X" for event in json.loads(path.read_bytes())["traceEvents"])
