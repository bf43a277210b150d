"""What counting adds to one `torch.add` on four floats beside an empty callback, and to a training step."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import torch

from benchmarks.pairing import paired
from benchmarks.record_op import Recorder, added_ns, compiled_empty_callback
from benchmarks.rows import Row, Target
from otel_torchprof.recorder.op_counts import OpCounts
from otel_torchprof.recorder.step_sampling import DEFAULT_MAX_OVERHEAD, StepSampler

_PERCENT = 100


def run(quick: bool) -> list[Row]:
    """Measures the rows "count an op" and "counting, of a step"; needs a C++ compiler for the anchor."""
    blocks, repeats, steps = (20, 3, 10) if quick else (100, 9, 400)
    with compiled_empty_callback() as empty_callback:

        def measure(ours: Recorder) -> tuple[float, float]:
            figures = paired(
                lambda: added_ns(ours, blocks), lambda: added_ns(empty_callback, blocks), repeats
            )
            return figures.a, figures.b

        counted_ns, empty_ns = measure(_counting())
        durations_ns, empty_beside_durations_ns = measure(_counting(with_durations=True))
    step = _training_step()
    full_share, sampled_share = _shares_of_a_step(step, counted_ns, steps)
    wall = paired(lambda: _sampled_step_us(step, steps), lambda: _step_us(step, steps), repeats)
    return [
        Row("count an op", counted_ns, "ns/op", "empty callback", empty_ns, Target("at most", 1.3)),
        Row(
            "count an op, with histograms", durations_ns, "ns/op", "empty callback", empty_beside_durations_ns
        ),
        Row("count every step (ns an op x ops / step)", full_share, "% of a step"),
        Row(
            "count sampled steps (ns an op x ops / step)",
            sampled_share,
            "% of a step",
            target=Target("at most", DEFAULT_MAX_OVERHEAD * _PERCENT, of="ours"),
        ),
        Row("train a step, sampled", wall.a, "us/step", "not counted", wall.b),
    ]


def _counting(*, with_durations: bool = False) -> Recorder:
    @contextlib.contextmanager
    def counted() -> Iterator[None]:
        counts = OpCounts(with_durations=with_durations)
        counts.start()
        try:
            yield
        finally:
            counts.stop()

    return counted


def _training_step() -> Callable[[], None]:
    """One step of a small transformer."""
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.randn(8, 32, 64)

    def step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step


@contextlib.contextmanager
def _sampler() -> Iterator[tuple[OpCounts, StepSampler]]:
    counts = OpCounts()
    counts.start()
    try:
        yield counts, StepSampler(counts)
    finally:
        counts.stop()


def _shares_of_a_step(step: Callable[[], None], op_cost_ns: float, steps: int) -> tuple[float, float]:
    """Percent of a step that counting takes: of every step, and of those that the sampler picks."""
    step_us = _step_us(step, steps)
    with _sampler() as (counts, sampler):
        before = counts.counted
        step()
        ops_per_step = counts.counted - before
        for _ in range(steps):
            sampler.step_boundary()
            step()
        steps_per_counted_one = sampler.block_size
    share = _PERCENT * ops_per_step * op_cost_ns / (1000 * step_us)
    return share, share / steps_per_counted_one


def _sampled_step_us(step: Callable[[], None], steps: int) -> float:
    with _sampler() as (_, sampler):

        def sampled_step() -> None:
            sampler.step_boundary()
            step()

        for _ in range(steps // 4):  # the sampler learns what a step costs
            sampled_step()
        return _step_us(sampled_step, steps)


def _step_us(step: Callable[[], None], steps: int) -> float:
    """Mean wall time of a step: a median would leave out the few that are counted."""
    step()
    start_ns = time.perf_counter_ns()
    for _ in range(steps):
        step()
    return (time.perf_counter_ns() - start_ns) / 1000 / steps
