"""Steps of loops that scale their gradients, updating the scaler once an iteration or once an optimizer."""
# torch is not type-checked here: its classes and decorators are Any.
# mypy: disable-error-code="misc,no-any-return,untyped-decorator"

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from tests.support.step_loop import Loop, hooked_loop, loss_of, sgd


@pytest.fixture
def loop() -> Iterator[Loop]:
    with hooked_loop() as loop:
        yield loop


def step_scaled(scaler: torch.amp.GradScaler, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    scaler.scale(loss_of(model)).backward()
    scaler.step(optimizer)


def test_a_skipped_step_counts_once(loop: Loop) -> None:
    model = nn.Linear(3, 1)
    optimizer = sgd(model)
    scaler = torch.amp.GradScaler("cpu")
    weights = []
    for iteration in range(4):
        optimizer.zero_grad()
        loss = loss_of(model) * (float("inf") if iteration in (0, 2) else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        loop.mark("stepped")
        scaler.update()
        weights.append(model.weight.detach().clone())
    assert loop.iterations() == [["stepped"]] * 4 + [[]]
    assert loop.tracker.skipped == 2
    assert torch.equal(weights[1], weights[2])  # the infinite gradient was skipped
    assert not torch.equal(weights[0], weights[1])


def test_a_disabled_scaler_leaves_the_optimizer_in_charge(loop: Loop) -> None:
    model = nn.Linear(3, 1)
    optimizer = sgd(model)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    for _ in range(2):
        scaler.scale(loss_of(model)).backward()
        scaler.step(optimizer)
        loop.mark("stepped")
        scaler.update()
    assert loop.iterations() == [[], ["stepped"], ["stepped"]]
    assert loop.tracker.skipped == 0


def test_a_scaler_with_an_update_of_its_own(loop: Loop) -> None:
    class Scaler(torch.amp.GradScaler):
        def update(self, new_scale: float | torch.Tensor | None = None) -> None:
            super().update(new_scale)

    model = nn.Linear(3, 1)
    optimizer = sgd(model)
    scaler = Scaler("cpu")
    for _ in range(3):
        step_scaled(scaler, model, optimizer)
        scaler.update()
    assert loop.numbers == [1, 2, 3]


def test_the_optimizer_takes_over_when_the_scaler_is_gone(loop: Loop) -> None:
    model = nn.Linear(3, 1)
    optimizer = sgd(model)
    scaler = torch.amp.GradScaler("cpu")
    step_scaled(scaler, model, optimizer)
    scaler.update()
    del scaler
    gc.collect()
    loss_of(model).backward()
    optimizer.step()
    assert loop.numbers == [1, 2]


def test_one_update_after_two_optimizers(loop: Loop) -> None:
    models = [nn.Linear(3, 1), nn.Linear(3, 1)]
    optimizers = [sgd(model) for model in models]
    scaler = torch.amp.GradScaler("cpu")
    for _ in range(3):
        for model, optimizer in zip(models, optimizers, strict=True):
            step_scaled(scaler, model, optimizer)
            loop.mark("stepped")
        scaler.update()
    assert loop.iterations() == [["stepped"] * 2] * 3 + [[]]


def test_an_update_after_each_of_two_optimizers(loop: Loop) -> None:
    """As Lightning and accelerate do. That there is a second one shows with its first update."""
    models = [nn.Linear(3, 1), nn.Linear(3, 1)]
    optimizers = [sgd(model) for model in models]
    scaler = torch.amp.GradScaler("cpu")
    for _ in range(4):
        for number, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
            step_scaled(scaler, model, optimizer)
            loop.mark(str(number))
            scaler.update()
    assert loop.iterations() == [["0"], ["1", "0", "1"], ["0", "1"], ["0", "1"], []]
    assert loop.numbers == [1, 2, 3, 4]


def test_a_scaler_for_each_of_two_optimizers(loop: Loop) -> None:
    models = [nn.Linear(3, 1), nn.Linear(3, 1)]
    optimizers = [sgd(model) for model in models]
    scalers = [torch.amp.GradScaler("cpu") for _ in models]
    for _ in range(4):
        for scaler, model, optimizer in zip(scalers, models, optimizers, strict=True):
            step_scaled(scaler, model, optimizer)
            scaler.update()
    assert loop.numbers == [1, 2, 3, 4]


def test_an_optimizer_that_comes_later_joins_the_iterations(loop: Loop) -> None:
    models = [nn.Linear(3, 1), nn.Linear(3, 1)]
    optimizers = [sgd(models[0])]
    scaler = torch.amp.GradScaler("cpu")
    for iteration in range(6):
        if iteration == 3:
            optimizers.append(sgd(models[1]))
        for model, optimizer in zip(models, optimizers, strict=False):
            step_scaled(scaler, model, optimizer)
        scaler.update()
        loop.mark("end")
    assert loop.iterations() == [[]] + [["end"]] * 6
    assert loop.numbers == [1, 2, 3, 4, 5, 6]
