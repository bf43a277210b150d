"""The hooks in torch: schedulers, copies, threads, torch.compile, and taking them out again."""
# torch is not type-checked here: its classes and decorators are Any.
# mypy: disable-error-code="misc,no-any-return,untyped-decorator"

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

from otel_torchprof.recorder.optimizer_hooks import OptimizerHooks
from otel_torchprof.recorder.steps import StepSource, StepTracker
from tests.support.step_loop import Loop, hooked_loop, loss_of, sgd


@pytest.fixture
def loop() -> Iterator[Loop]:
    with hooked_loop() as loop:
        yield loop


def test_learning_rate_scheduler_patches_the_instance(loop: Loop) -> None:
    model = nn.Linear(3, 1)
    optimizer = sgd(model)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    for _ in range(3):
        loss_of(model).backward()
        optimizer.step()
        scheduler.step()
    assert loop.numbers == [1, 2, 3]
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.01 * 0.5**3)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_a_copy_of_an_optimizer_steps(
    loop: Loop, duplicate: Callable[[torch.optim.Optimizer], torch.optim.Optimizer]
) -> None:
    optimizer = duplicate(sgd(nn.Linear(3, 1)))
    parameter = optimizer.param_groups[0]["params"][0]
    for _ in range(3):
        parameter.square().sum().backward()
        before = parameter.detach().clone()
        optimizer.step()
        assert not torch.equal(before, parameter)
    assert loop.numbers == [1, 2, 3]


def test_explicit_steps_silence_the_optimizer(loop: Loop) -> None:
    model = nn.Linear(3, 1)
    optimizer = sgd(model)
    requester = Loop  # any object that lives
    for _ in range(3):
        loss_of(model).backward()
        optimizer.step()
        loop.mark("optimizer")
        loop.tracker.advance(StepSource.EXPLICIT, requester)
        loop.mark("end")
    # The optimizer's first boundary came before anything told of explicit ones.
    assert loop.iterations() == [[], ["optimizer", "end", "optimizer"], ["end", "optimizer"], ["end"]]
    assert loop.numbers == [1, 2, 3]


def test_backward_on_another_thread(loop: Loop) -> None:
    model = nn.Linear(3, 1)
    optimizer = sgd(model)
    for _ in range(3):
        threads = [threading.Thread(target=lambda: loss_of(model).backward()) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        optimizer.step()
    assert loop.numbers == [1, 2, 3]


def test_removed_hooks_leave_torch_as_it_was() -> None:
    class Early(torch.optim.SGD):
        def step(self, closure: Callable[[], float] | None = None) -> float | None:
            return super().step(closure)

    class Late(Early):
        def step(self, closure: Callable[[], float] | None = None) -> float | None:
            return super().step(closure)

    model = nn.Linear(3, 1)
    Early(model.parameters(), lr=0.01)

    def state() -> list[object]:
        optimizer = torch.optim.Optimizer
        scaler = torch.amp.GradScaler
        return [
            torch.autograd._engine_run_backward,
            optimizer.__init__,
            optimizer.__setstate__,
            optimizer.__dict__["profile_hook_step"],
            Early.step,
            scaler.step,
            scaler.update,
        ]

    before = state()
    tracker = StepTracker()
    hooks = OptimizerHooks(torch, tracker)
    hooks.install()
    tracker.add_listener(lambda number, links: None)
    optimizer = Late(model.parameters(), lr=0.01)
    loss_of(model).backward()
    optimizer.step()
    assert tracker.current == 1
    hooks.remove()
    hooks.remove()
    assert state() == before
    loss_of(model).backward()
    with torch.profiler.profile() as prof:
        optimizer.step()
    assert tracker.current == 1
    # Raw results: events() leaves out same-named only children. One each for Late, Early and SGD.
    scopes = [event.name() for event in prof.profiler.kineto_results.events()]
    assert scopes.count("Optimizer.step#Late.step") == 3
    assert vars(Late.step)["hooked"] is True


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_compiled_optimizer_has_no_more_graphs_than_without_hooks(name: str) -> None:
    def graphs_of_a_compiled_step() -> int:
        torch.compiler.reset()
        model = nn.Linear(3, 1)
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.01)
        loss_of(model).backward()
        graphs: list[torch.fx.GraphModule] = []

        def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., object]:
            graphs.append(graph)
            return graph.forward

        before = model.weight.detach().clone()
        torch.compile(optimizer.step, backend=backend)()
        assert not torch.equal(before, model.weight)
        return len(graphs)

    without_hooks = graphs_of_a_compiled_step()
    tracker = StepTracker()
    tracker.add_listener(lambda number, links: None)
    hooks = OptimizerHooks(torch, tracker)
    hooks.install()
    try:
        assert graphs_of_a_compiled_step() == without_hooks
    finally:
        hooks.remove()


def test_compiled_model_with_an_eager_step_is_counted(loop: Loop) -> None:
    model = torch.compile(nn.Linear(3, 1), backend="eager", fullgraph=True)
    optimizer = sgd(model)
    for _ in range(3):
        loss_of(model).backward()
        optimizer.step()
    assert loop.numbers == [1, 2, 3]


def test_compiled_gradients_stay_one_graph(loop: Loop) -> None:
    def by_functional(x: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(lambda t: (t**3).sum())(x)

    def by_autograd(x: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad((x**3).sum(), x)[0]

    x = torch.tensor([2.0], requires_grad=True)
    with torch._dynamo.config.patch(trace_autograd_ops=True):
        for gradient in (by_functional, by_autograd):
            compiled = torch.compile(gradient, backend="eager", fullgraph=True)
            assert compiled(x).item() == pytest.approx(12.0)


def test_a_compiled_training_step_with_graph_breaks_is_counted(loop: Loop) -> None:
    model = nn.Linear(3, 1)
    optimizer = sgd(model)

    @torch.compile(backend="eager")
    def train(inputs: torch.Tensor) -> None:
        model(inputs).square().mean().backward()
        torch._dynamo.graph_break()
        optimizer.step()

    for _ in range(3):
        train(torch.randn(4, 3))
    assert loop.numbers == [1, 2, 3]


def test_learning_rate_scheduler_made_before_the_hooks() -> None:
    model = nn.Linear(3, 1)
    optimizer = sgd(model)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    tracker = StepTracker()
    hooks = OptimizerHooks(torch, tracker)
    hooks.install()
    loop = Loop(tracker)
    try:
        for _ in range(3):
            loss_of(model).backward()
            optimizer.step()
            scheduler.step()
        assert loop.numbers == [1, 2, 3]
    finally:
        hooks.remove()
    loss_of(model).backward()
    optimizer.step()
    assert loop.numbers == [1, 2, 3]


class EqualOptimizer(torch.optim.SGD):
    """Compares by value, and so has no hash."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EqualOptimizer)


def test_optimizers_that_compare_by_value_step(loop: Loop) -> None:
    model, adversary = nn.Linear(3, 1), nn.Linear(3, 1)
    first, second = (EqualOptimizer(each.parameters(), lr=0.01) for each in (model, adversary))
    for _ in range(3):
        loss_of(model).backward()
        first.step()
        loop.mark("first")
        loss_of(adversary).backward()
        second.step()
        loop.mark("second")
    assert loop.numbers == [1, 2, 3]
    assert loop.iterations() == [["first"], ["second", "first"], ["second", "first"], ["second"]]


def test_a_scheduler_on_an_optimizer_that_compares_by_value_is_undone() -> None:
    optimizer = EqualOptimizer(nn.Linear(3, 1).parameters(), lr=0.01)
    torch.optim.lr_scheduler.StepLR(optimizer, step_size=1)
    step = vars(optimizer)["step"]
    with hooked_loop():
        assert vars(optimizer)["step"] is not step
    assert vars(optimizer)["step"] is step
