"""A training loop with everything a trace is asked to show: both passes, threads, a DataLoader, odd names."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import torch
from torch.utils.data import DataLoader, TensorDataset

from otel_torchprof.recorder.capture import Capture

# Each of these has made somebody's trace unreadable.
ODD_NAMES = ('a"b', "é✓", "tab\there", "\x01", "line\nbreak", "back\\slash", "x" * 10_000)


def run_steps(steps: int, *, at_end_of_step: Callable[[], object], names: Sequence[str] = ()) -> None:
    """Trains a small model, a thread of its own beside it; each name is a scope in every step."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 6 * 6, 5)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    samples = TensorDataset(torch.randn(steps * 4, 3, 8, 8), torch.randint(5, (steps * 4,)))
    for images, labels in DataLoader(samples, batch_size=4):
        beside = threading.Thread(target=lambda: torch.ones(8).mul(2).sum(), name="beside")
        beside.start()
        optimizer.zero_grad()
        with torch.profiler.record_function("forward"):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        beside.join()
        for name in names:
            with torch.profiler.record_function(name):
                torch.ones(2)
        at_end_of_step()


def run_captured_steps(
    capture: Capture,
    steps: int,
    *,
    profiler: torch.profiler.profile | None = None,
    names: Sequence[str] = (),
) -> None:
    """The loop, its iterations the steps 0 to `steps` - 1 of a capture and of torch's profiler beside it.

    Both have one more step, which begins when the last iteration is over.
    """
    numbers = iter(range(1, steps + 1))

    def end_of_step() -> None:
        if profiler is not None:
            profiler.step()
        capture.begin_step(next(numbers))

    capture.begin_step(0)
    run_steps(steps, at_end_of_step=end_of_step, names=names)
