"""Anti-patterns of training loops: each program has one fault, or is mended, or only looks alike."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from otel_torchprof import profile
from otel_torchprof.analysis.patterns import Level, report_all_anti_patterns
from tests.support.pattern_findings import STEPS, findings_of, only


class Training:
    """A step of training, to be varied."""

    def __init__(self, optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]) -> None:
        self.model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(12)))
        self.optimizer = optimizer(self.model.parameters())
        self.inputs = torch.randn(4, 8)

    def backward(self) -> torch.Tensor:
        loss = self.model(self.inputs).square().mean()
        loss.backward()
        return loss


def sgd(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.01)


def test_gradients_filled_with_zeros() -> None:
    training = Training(sgd)

    def zeros(_step: int) -> None:
        training.optimizer.zero_grad(set_to_none=False)
        training.backward()
        training.optimizer.step()

    def none(_step: int) -> None:
        training.optimizer.zero_grad()
        training.backward()
        training.optimizer.step()
        training.inputs.clone().zero_()

    found = only(findings_of(zeros, "gradients-zeroed"), zeros)
    assert (found.confidence, found.count) == (Level.HIGH, STEPS - 1)  # there are none before the first
    assert found.saving.high_ns == found.cost_ns > 0
    training.optimizer.zero_grad()
    assert findings_of(none, "gradients-zeroed") == []


@pytest.mark.parametrize(("fused", "steps_found"), [(False, STEPS), (True, 0)])
def test_an_optimizer_that_could_be_fused(fused: bool, steps_found: int) -> None:
    training = Training(lambda parameters: torch.optim.Adam(parameters, fused=fused))

    def train(_step: int) -> None:
        training.optimizer.zero_grad()
        training.backward()
        training.optimizer.step()

    findings = findings_of(train, "unfused-optimizer")
    assert sum(found.count for found in findings) == steps_found


@pytest.mark.parametrize(("momentum", "steps_found"), [(0.9, STEPS), (0.0, 0)])
def test_sgd_that_could_be_fused(momentum: float, steps_found: int) -> None:
    training = Training(sgd)
    training.model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(40)))
    training.optimizer = torch.optim.SGD(training.model.parameters(), lr=0.01, momentum=momentum)

    def train(_step: int) -> None:
        training.optimizer.zero_grad()
        training.backward()
        training.optimizer.step()

    train(0)  # there is no momentum yet
    # One op a parameter, as without momentum, is what fusing makes of it too.
    assert sum(found.count for found in findings_of(train, "unfused-optimizer")) == steps_found


def test_a_norm_read_back_for_each_parameter() -> None:
    training = Training(sgd)

    def one_by_one(_step: int) -> float:
        training.backward()
        gradients = [p.grad for p in training.model.parameters() if p.grad is not None]
        return sum(float(gradient.norm().item()) for gradient in gradients)

    def at_once(_step: int) -> float:
        training.backward()
        norms = torch.stack([p.grad.norm() for p in training.model.parameters() if p.grad is not None])
        return float(norms.norm().item())

    found = findings_of(one_by_one, "per-parameter-norm")
    assert sum(one.count for one in found) == STEPS * 2 * 24
    assert findings_of(at_once, "per-parameter-norm") == []


def test_a_sum_that_keeps_graphs() -> None:
    training = Training(sgd)
    total: Any = 0.0

    def keeps(_step: int) -> None:
        nonlocal total
        total = total + training.backward()

    def keeps_in_place(_step: int) -> None:
        nonlocal total
        total += training.backward()

    def drops(_step: int) -> None:
        nonlocal total
        total = total + training.backward().detach()

    def adds_two_losses(_step: int) -> torch.Tensor:
        return training.backward() + training.backward()

    found = only(findings_of(keeps, "graph-kept-by-sum"), keeps)
    assert (found.severity, found.confidence) == (Level.HIGH, Level.HIGH)
    total = 0.0
    assert only(findings_of(keeps_in_place, "graph-kept-by-sum"), keeps_in_place).count >= STEPS - 2
    total = 0.0
    assert findings_of(drops, "graph-kept-by-sum") == []
    assert findings_of(adds_two_losses, "graph-kept-by-sum") == []


def test_anomaly_detection_left_on() -> None:
    training = Training(sgd)

    def watched(_step: int) -> None:
        with torch.autograd.set_detect_anomaly(True):
            training.backward()

    def checks_the_loss(_step: int) -> bool:
        return bool(training.backward().isnan().any().item())

    found = findings_of(watched, "anomaly-detection-on")
    assert {one.confidence for one in found} == {Level.HIGH}
    assert sum(one.cost_ns for one in found) > 0
    assert findings_of(checks_the_loss, "anomaly-detection-on") == []


def test_a_profile_knows_its_patterns(capsys: pytest.CaptureFixture[str]) -> None:
    training = Training(sgd)
    with profile(with_stack=True) as prof:
        training.backward()
        training.optimizer.zero_grad(set_to_none=False)
    assert "gradients-zeroed" in {finding.pattern for finding in prof.patterns().findings}
    report_all_anti_patterns(prof)
    assert "Gradients are filled with zeros instead of dropped" in capsys.readouterr().out


def test_collecting_garbage_in_each_step() -> None:
    def collects(_step: int) -> int:
        return gc.collect()

    def collects_once(step: int) -> int:
        return gc.collect() if step == 0 else 0

    assert only(findings_of(collects, "garbage-collection-in-step"), collects).count == STEPS
    assert findings_of(collects_once, "garbage-collection-in-step") == []


class Slow(Dataset[torch.Tensor]):
    """Samples that take work to make."""

    def __init__(self, work: int) -> None:
        self.work = work

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> torch.Tensor:
        sample = torch.full((32, 32), float(index))
        for _ in range(self.work):
            sample = sample @ sample
        return sample


def test_loading_in_the_training_process() -> None:
    big = torch.randn(700, 700)

    def epoch(_step: int) -> None:
        for batch in DataLoader(Slow(30), batch_size=4):
            batch.sum()

    def little_loading(_step: int) -> None:
        for _batch in DataLoader(Slow(0), batch_size=16):
            for _ in range(50):
                big.mm(big)

    found = findings_of(epoch, "data-loader-in-process")
    assert (only(found, epoch).severity, found[0].confidence) == (Level.HIGH, Level.HIGH)
    assert findings_of(little_loading, "data-loader-in-process") == []


def test_workers_that_are_started_again() -> None:
    def new_workers(_step: int) -> None:
        for _batch in DataLoader(Slow(0), batch_size=8, num_workers=1):
            pass

    loader = DataLoader(Slow(0), batch_size=8, num_workers=1, persistent_workers=True)

    def same_workers(_step: int) -> None:
        for _batch in loader:
            pass

    found = only(findings_of(new_workers, "data-loader-workers-respawned"), new_workers)
    assert (found.count, found.confidence) == (STEPS - 1, Level.HIGH)
    assert findings_of(same_workers, "data-loader-workers-respawned") == []
    loader._iterator = None  # ends its worker


def test_workers_that_are_too_slow() -> None:
    big = torch.randn(700, 700)

    def starves(_step: int) -> None:
        for _batch in DataLoader(Slow(200), batch_size=2, num_workers=1):
            pass

    def is_fed(_step: int) -> None:
        for _batch in DataLoader(Slow(0), batch_size=2, num_workers=1):
            for _ in range(20):
                big.mm(big)

    assert only(findings_of(starves, "data-loader-starves", steps=1), starves).confidence == Level.HIGH
    assert findings_of(is_fed, "data-loader-starves", steps=1) == []


def test_compiling_again_and_again() -> None:
    torch.compiler.reset()

    def scale(x: torch.Tensor, factor: int) -> torch.Tensor:
        return x * factor if factor % 2 else x + factor

    fresh = torch.compile(scale, backend="eager", dynamic=False)

    def new_sizes(step: int) -> None:
        fresh(torch.ones(step + 2), step)

    def same_sizes(_step: int) -> None:
        fresh(torch.ones(2), 0)

    assert [one.confidence for one in findings_of(new_sizes, "recompilation")] == [Level.HIGH]
    assert findings_of(same_sizes, "recompilation") == []
    torch.compiler.reset()


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
