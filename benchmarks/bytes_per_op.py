"""Bytes of a recording for each op of a real training loop, beside what Kineto holds for the same one."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable
from pathlib import Path

import psutil
import torch

from benchmarks.rows import Row, Target
from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.capture_options import CaptureOptions

_TARGET = Target("at most", 64, of="ours")


def _training_steps(steps: int) -> Callable[[], None]:
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, targets = torch.randn(16, 32), torch.randint(0, 8, (16,))

    def train() -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()

    return train


def _file_bytes_per_op(steps: int, *, record_shapes: bool) -> tuple[float, int]:
    train = _training_steps(steps)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.tprof"
        capture = Capture(path, CaptureOptions(record_shapes=record_shapes, buffer_size_bytes=1 << 30))
        capture.start()
        train()
        recording = capture.stop()
        if recording.drops:
            raise RuntimeError(f"not all was recorded: {dict(recording.drops)}")
        # Blocks, not length: what the file really takes.
        return path.stat().st_blocks * 512 / len(recording), len(recording)


def _kineto_bytes_per_op(steps: int, ops: int) -> float:
    """Growth of the process while Kineto records the same ops; before stop, after which it needs far more."""
    train = _training_steps(steps)
    process = psutil.Process()
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    profiler.start()
    gc.collect()
    before_bytes: int = process.memory_info().rss
    train()
    grown_bytes: int = process.memory_info().rss - before_bytes
    profiler.stop()
    return grown_bytes / ops


def run(quick: bool) -> list[Row]:
    steps = 200 if quick else 5_000
    _training_steps(20)()  # first allocations are torch's own
    plain, ops = _file_bytes_per_op(steps, record_shapes=False)
    shaped, _ = _file_bytes_per_op(steps, record_shapes=True)
    kineto = _kineto_bytes_per_op(steps, ops)
    return [
        Row(f"recording on disk, {ops:,} ops", plain, "B/op", "Kineto in memory", kineto, _TARGET),
        Row("recording on disk, with shapes", shaped, "B/op"),
    ]
