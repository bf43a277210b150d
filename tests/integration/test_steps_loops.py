"""Step boundaries of real training loops: how many, and where in the user's code."""
# torch is not type-checked here: its classes and decorators are Any.
# mypy: disable-error-code="misc,no-any-return,untyped-decorator"

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

from tests.support.step_loop import Loop, hooked_loop, loss_of, sgd


@pytest.fixture
def loop() -> Iterator[Loop]:
    with hooked_loop() as loop:
        yield loop


def test_one_optimizer(loop: Loop) -> None:
    model = nn.Linear(3, 1)
    optimizer = sgd(model)
    for _ in range(3):
        optimizer.zero_grad()
        loss_of(model).backward()
        loop.mark("backward")
        optimizer.step()
    assert loop.iterations() == [["backward"]] * 3 + [[]]
    assert loop.numbers == [1, 2, 3]


def test_boundary_lies_outside_the_optimizers_own_scope(loop: Loop) -> None:
    model = nn.Linear(3, 1)
    optimizer = sgd(model)
    loss_of(model).backward()
    loop.tracker.add_listener(lambda number, links: torch.zeros(1).digamma_())
    with torch.profiler.profile() as prof:
        optimizer.step()
    (scope,) = [e for e in prof.events() if e.name == "Optimizer.step#SGD.step"]
    (marker,) = [e for e in prof.events() if e.name == "aten::digamma_"]
    assert marker.time_range.start >= scope.time_range.end


def test_gradient_accumulation(loop: Loop) -> None:
    model = nn.Linear(3, 1)
    optimizer = sgd(model)
    for _ in range(2):
        for _ in range(4):
            loss_of(model).backward()
            loop.mark("backward")
        optimizer.step()
        optimizer.zero_grad()
    assert loop.iterations() == [["backward"] * 4] * 2 + [[]]


def test_several_backwards_of_several_losses(loop: Loop) -> None:
    model = nn.Linear(3, 1)
    optimizer = sgd(model)
    for _ in range(3):
        loss_of(model).backward()
        loss_of(model).backward()
        optimizer.step()
        loop.mark("end")
    assert loop.iterations() == [[], ["end"], ["end"], ["end"]]


def test_gradients_from_autograd_grad(loop: Loop) -> None:
    model = nn.Linear(3, 1)
    optimizer = sgd(model)
    for _ in range(3):
        gradients = torch.autograd.grad(loss_of(model), list(model.parameters()))
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter.grad = gradient
        optimizer.step()
    assert loop.numbers == [1, 2, 3]


def test_a_step_without_a_new_backward_is_no_step(loop: Loop) -> None:
    model = nn.Linear(3, 1)
    optimizer = sgd(model)
    optimizer.step()
    assert loop.numbers == []
    loss_of(model).backward()
    optimizer.step()
    assert loop.numbers == [1]


def test_two_optimizers_gan_style(loop: Loop) -> None:
    generator, discriminator = nn.Linear(3, 3), nn.Linear(3, 1)
    optimizer_d, optimizer_g = sgd(discriminator), sgd(generator)
    for _ in range(4):
        loss_of(discriminator).backward()
        loop.mark("D")
        optimizer_d.step()
        discriminator(generator(torch.randn(4, 3))).mean().backward()
        loop.mark("G")
        optimizer_g.step()
    assert loop.iterations() == [["D", "G"]] * 4 + [[]]
    assert loop.numbers == [1, 2, 3, 4]


def test_two_optimizers_after_one_backward(loop: Loop) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    optimizers = [sgd(layer) for layer in model]
    for _ in range(3):
        loss_of(model).backward()
        for optimizer in optimizers:
            loop.mark("step")
            optimizer.step()
    assert loop.iterations() == [["step", "step"]] * 3 + [[]]


def test_two_optimizers_that_existed_before(loop: Loop) -> None:
    # The first boundary comes too early, since nothing tells of the second optimizer; none is lost or double.
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    optimizers = [sgd(model) for _ in range(2)]
    for optimizer in optimizers:
        loop.tracker.forget(optimizer)
    for _ in range(4):
        for number, optimizer in enumerate(optimizers):
            loss_of(model).backward()
            loop.mark(str(number))
            optimizer.step()
    assert loop.iterations() == [["0"], ["1", "0", "1"], ["0", "1"], ["0", "1"], []]


def test_an_optimizer_that_steps_now_and_then(loop: Loop) -> None:
    critic, actor = nn.Linear(3, 1), nn.Linear(3, 1)
    optimizer_critic, optimizer_actor = sgd(critic), sgd(actor)
    for _ in range(4):
        for _ in range(5):
            loss_of(critic).backward()
            optimizer_critic.step()
            loop.mark("critic")
        loss_of(actor).backward()
        optimizer_actor.step()
        loop.mark("actor")
    assert loop.tracker.current == 20
    # It was waited for once.
    assert loop.numbers == list(range(2, 21))


def test_one_optimizer_stepped_group_by_group(loop: Loop) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 1))
    optimizer = torch.optim.SGD([{"params": layer.parameters()} for layer in model], lr=0.01)
    groups = optimizer.param_groups
    for _ in range(3):
        loss_of(model).backward()
        for group in groups:
            optimizer.param_groups = [group]
            loop.mark("group")
            optimizer.step()
    assert loop.iterations() == [["group"] * 3] * 3 + [[]]


def test_a_whole_optimizer_stepped_repeatedly_is_learned(loop: Loop) -> None:
    model = nn.Linear(3, 1)
    optimizer = sgd(model)
    for _ in range(4):
        loss_of(model).backward()
        for _ in range(2):
            loop.mark("step")
            optimizer.step()
    assert loop.numbers == [1, 2, 3, 4]
    assert loop.iterations()[2:] == [["step", "step"], ["step", "step"], []]


def test_evaluation_between_epochs(loop: Loop) -> None:
    model = nn.Linear(3, 1)
    optimizer = sgd(model)
    for _ in range(2):
        for _ in range(2):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
            loop.mark("train")
        with torch.no_grad():
            for _ in range(3):
                loss_of(model)
                loop.mark("eval")
    assert loop.numbers == [1, 2, 3, 4]
    assert loop.iterations()[2] == ["train", "eval", "eval", "eval"]


def test_hooks_that_step_inside_the_backward(loop: Loop) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    optimizers = {p: torch.optim.SGD([p], lr=0.01) for p in model.parameters()}

    def step(parameter: torch.Tensor) -> None:
        optimizers[parameter].step()
        loop.mark("step")
        parameter.grad = None

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    for _ in range(3):
        loss_of(model).backward()
        loop.mark("after backward")
    first, *others, last = loop.iterations()
    assert first == ["step"] * 4
    assert others == [["after backward"] + ["step"] * 4] * 2
    assert last == ["after backward"]


def test_hooks_that_step_some_and_a_step_for_the_rest(loop: Loop) -> None:
    body, head = nn.Linear(3, 3), nn.Linear(3, 1)
    optimizer_body = sgd(body)
    optimizer_head = sgd(head)
    body.weight.register_post_accumulate_grad_hook(lambda _: optimizer_body.step())
    for _ in range(3):
        head(body(torch.randn(4, 3))).mean().backward()
        loop.mark("after backward")
        optimizer_head.step()
    assert loop.iterations() == [["after backward"]] * 3 + [[]]


def test_a_checkpoint_runs_a_backward_inside_the_backward(loop: Loop) -> None:
    model = nn.Linear(3, 1)
    optimizer = sgd(model)
    for _ in range(3):
        inputs = torch.randn(4, 3, requires_grad=True)
        output = torch.utils.checkpoint.checkpoint(model, inputs, use_reentrant=True)
        output.mean().backward()
        optimizer.step()
    assert loop.numbers == [1, 2, 3]


def test_backward_that_raises_holds_nothing_back(loop: Loop) -> None:
    model = nn.Linear(3, 1)
    optimizer = sgd(model)

    def step_and_fail(_: torch.Tensor) -> None:
        optimizer.step()
        raise RuntimeError("in the hook")

    handle = model.weight.register_post_accumulate_grad_hook(step_and_fail)
    with pytest.raises(RuntimeError, match="in the hook"):
        loss_of(model).backward()
    assert loop.numbers == [1]
    handle.remove()
    loss_of(model).backward()
    optimizer.step()
    assert loop.numbers == [1, 2]


def test_lbfgs_closure(loop: Loop) -> None:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        loop.mark("closure")
        return loss

    for _ in range(3):
        optimizer.step(closure)
    *whole, rest = loop.iterations()
    assert rest == []
    assert len(whole) == 3
    assert all(iteration and set(iteration) == {"closure"} for iteration in whole)


def test_optimizer_created_late(loop: Loop) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    optimizers = [sgd(model[0])]
    for iteration in range(6):
        if iteration == 3:
            optimizers.append(sgd(model[1]))
        loss_of(model).backward()
        for optimizer in optimizers:
            loop.mark("step")
            optimizer.step()
    assert loop.iterations() == [["step"]] * 3 + [["step", "step"]] * 3 + [[]]
    assert loop.numbers == [1, 2, 3, 4, 5, 6]


def test_optimizer_created_each_epoch(loop: Loop) -> None:
    model = nn.Linear(3, 1)
    for _ in range(5):
        optimizer = sgd(model)
        for _ in range(2):
            loss_of(model).backward()
            optimizer.step()
        del optimizer
        gc.collect()
    assert loop.numbers == list(range(1, 11))


def test_super_step_counts_once(loop: Loop) -> None:
    class Logged(torch.optim.SGD):
        def step(self, closure: Callable[[], float] | None = None) -> float | None:
            loop.mark("step")
            return super().step(closure)

    model = nn.Linear(3, 1)
    plain = sgd(model)  # so that SGD.step itself is hooked
    optimizer = Logged(model.parameters(), lr=0.01)
    del plain
    for _ in range(3):
        loss_of(model).backward()
        optimizer.step()
    assert loop.iterations() == [["step"]] * 3 + [[]]


def test_an_optimizer_made_of_others_counts_once(loop: Loop) -> None:
    class Both(torch.optim.Optimizer):
        def __init__(self, parts: list[torch.optim.Optimizer]) -> None:
            super().__init__([p for part in parts for g in part.param_groups for p in g["params"]], {})
            self.parts = parts

        def step(self, closure: object = None) -> None:
            for part in self.parts:
                part.step()
                loop.mark("part")

    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    optimizer = Both([sgd(layer) for layer in model])
    for _ in range(3):
        loss_of(model).backward()
        optimizer.step()
    assert loop.iterations() == [["part", "part"]] * 3 + [[]]
