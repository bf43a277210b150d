"""A training loop that writes down where its step boundaries fall."""
# torch is not type-checked here: its classes are Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from otel_torchprof.recorder.optimizer_hooks import OptimizerHooks
from otel_torchprof.recorder.steps import StepTracker

BOUNDARY = "|"


class Loop:
    """Writes down what the user's code does and where the boundaries fall."""

    def __init__(self, tracker: StepTracker) -> None:
        self.log: list[str] = []
        self.numbers: list[int] = []
        self.tracker = tracker
        tracker.add_listener(self._on_boundary)

    def _on_boundary(self, number: int, links: bytes) -> None:
        self.log.append(BOUNDARY)
        self.numbers.append(number)

    def mark(self, what: str) -> None:
        self.log.append(what)

    def iterations(self) -> list[list[str]]:
        """The marks between boundaries; the last item is what came after the last boundary."""
        parts: list[list[str]] = [[]]
        for mark in self.log:
            if mark == BOUNDARY:
                parts.append([])
            else:
                parts[-1].append(mark)
        return parts


@contextmanager
def hooked_loop() -> Iterator[Loop]:
    """A loop with a tracker of its own, hooked into torch meanwhile."""
    tracker = StepTracker()
    hooks = OptimizerHooks(torch, tracker)
    hooks.install()
    try:
        yield Loop(tracker)
    finally:
        hooks.remove()


def loss_of(model: nn.Module) -> torch.Tensor:
    loss: torch.Tensor = model(torch.randn(4, 3)).square().mean()
    return loss


def sgd(model: nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr=0.01)
