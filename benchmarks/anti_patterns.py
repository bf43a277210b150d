"""The search for anti-patterns: its time an event beside torch's; what mending saves beside the estimate."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F
from torch.profiler import _pattern_matcher

from benchmarks.pairing import elapsed_ns, paired
from benchmarks.rows import Row, Target
from otel_torchprof.analysis.patterns import find_patterns
from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.capture_options import CaptureOptions
from otel_torchprof.recording import Recording

_RECORDING_BYTES = 1 << 30
_PATTERN_SECONDS_A_MILLION = 5.0
Work = Callable[[], object]


def _training_step() -> Work:
    model = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.ReLU()) for _ in range(20)))
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    inputs = torch.randn(4, 8)

    def step() -> None:
        optimizer.zero_grad(set_to_none=False)
        model(inputs).sum().backward()
        optimizer.step()

    return step


def _record(work: Work, steps: int) -> Recording:
    options = CaptureOptions(record_shapes=True, profile_memory=True, buffer_size_bytes=_RECORDING_BYTES)
    capture = Capture(options=options)
    capture.start()
    for number in range(steps):
        capture.begin_step(number)
        work()
    return capture.stop()


def _ours(recording: Recording) -> float:
    # What was computed before stays with the object: another one has nothing yet.
    return elapsed_ns(lambda: find_patterns(Recording(recording.native))) / len(recording)


def _torch(step: Work, steps: int) -> float:
    with torch.profiler.profile(record_shapes=True, with_stack=True) as profiler:
        for _ in range(steps):
            step()
    events = len(profiler.events())
    start_ns = time.perf_counter_ns()
    _pattern_matcher.report_all_anti_patterns(profiler, print_enable=False)
    return (time.perf_counter_ns() - start_ns) / events


@dataclass(frozen=True)
class _Fault:
    """A program, and the same one mended."""

    pattern: str
    faulty: Work
    mended: Work


def _faults() -> list[_Fault]:
    table, column, numbers = torch.zeros(400, 400), torch.arange(400.0), [0.5] * 50_000
    array = torch.tensor(numbers).numpy()
    matrix, row = torch.randn(4096, 256), torch.randn(256)
    q, k, v = torch.randn(3, 4, 8, 256, 32)

    def indexes() -> None:
        for index in range(400):
            table[index] = index

    def indexes_at_once() -> None:
        table[:] = column.unsqueeze(1)

    def grows() -> torch.Tensor:
        result = torch.zeros(1, 256)
        for _ in range(200):
            result = torch.cat([result, row.unsqueeze(0)])
        return result

    def collects() -> torch.Tensor:
        return torch.cat([torch.zeros(1, 256), *(row.unsqueeze(0) for _ in range(200))])

    def attends() -> torch.Tensor:
        return (q @ k.transpose(-1, -2) * 32**-0.5).softmax(-1) @ v

    return [
        _Fault("for-loop-indexing", indexes, indexes_at_once),
        _Fault("growing-cat", grows, collects),
        _Fault("tensor-from-list", lambda: torch.tensor(numbers), lambda: torch.from_numpy(array)),
        _Fault("materialized-broadcast", lambda: matrix + row.repeat(4096, 1), lambda: matrix + row),
        _Fault("unfused-attention", attends, lambda: F.scaled_dot_product_attention(q, k, v)),
        _Fault("unfused-optimizer", _optimizer_step(fused=False), _optimizer_step(fused=True)),
    ]


def _optimizer_step(*, fused: bool) -> Work:
    parameters = [nn.Parameter(torch.randn(64, 64)) for _ in range(50)]
    for parameter in parameters:
        parameter.grad = torch.randn(64, 64)
    optimizer = torch.optim.Adam(parameters, fused=fused)

    def step() -> None:
        optimizer.step()

    return step


def _saving(fault: _Fault, repeats: int) -> Row:
    whole_ns = 0

    def timed() -> None:
        nonlocal whole_ns
        start_ns = time.perf_counter_ns()
        fault.faulty()
        whole_ns += time.perf_counter_ns() - start_ns

    recording = _record(timed, 20)
    found = [finding for finding in find_patterns(recording).findings if finding.pattern == fault.pattern]
    if not found:
        raise RuntimeError(f"{fault.pattern} was not found")
    times = paired(lambda: elapsed_ns(fault.faulty), lambda: elapsed_ns(fault.mended), repeats)
    low = sum(finding.saving.low_ns for finding in found) / whole_ns
    high = sum(finding.saving.high_ns for finding in found) / whole_ns
    return Row(
        f"{fault.pattern}: saved by mending",
        100 * (1 - times.b / times.a),
        "% of the time",
        f"estimate: {low:.0%} to {high:.0%}",
    )


def run(quick: bool) -> list[Row]:
    steps, torch_steps, repeats = (10, 1, 1) if quick else (280, 10, 3)
    step = _training_step()
    recording = _record(step, steps)
    figures = paired(lambda: _ours(recording) / 1000, lambda: _torch(step, torch_steps) / 1000, repeats)
    return [
        Row(
            f"find anti-patterns, {len(recording):,} events",
            figures.a,
            "us/event",
            "torch's matcher",
            figures.b,
            Target("at most", _PATTERN_SECONDS_A_MILLION, of="ours"),
        ),
        *(_saving(fault, 1 if quick else 15) for fault in _faults()),
    ]
