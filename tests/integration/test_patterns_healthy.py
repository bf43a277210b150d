"""Programs that do nothing wrong: nothing is found in them that is said with high confidence."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from otel_torchprof.analysis.patterns import Finding, Level, find_patterns
from otel_torchprof.importers import load
from otel_torchprof.recording import Recording
from tests.support.pattern_findings import Program, record_steps

ROOT = Path(__file__).parents[2]


def sure(recording: Recording) -> list[tuple[str, str, str]]:
    """What is found with high confidence."""
    return [said(one) for one in find_patterns(recording).findings if one.confidence is Level.HIGH]


def said(finding: Finding) -> tuple[str, str, str]:
    return finding.pattern, str(finding.place), finding.detail


def trains(
    model: nn.Module, inputs: torch.Tensor, loss_of: Callable[[torch.Tensor], torch.Tensor]
) -> Program:
    """A loop as it should be: gradients dropped, a fused optimizer, the loss read once in a while."""
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    total = torch.zeros(())

    def step(number: int) -> None:
        optimizer.zero_grad()
        loss = loss_of(model(inputs))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total.add_(loss.detach())
        if number == 3:
            assert total.item() == total.item()

    return step


def residual_network() -> Program:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = nn.Conv2d(8, 8, 3, padding=1, bias=False)
            self.norm = nn.BatchNorm2d(8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.relu(x + self.norm(self.convolution(x)))

    model = nn.Sequential(nn.Conv2d(3, 8, 3), *(Block() for _ in range(4)), nn.Flatten(), nn.LazyLinear(10))
    images, labels = torch.randn(4, 3, 16, 16), torch.randint(10, (4,))
    model(images)
    return trains(model, images, lambda outputs: F.cross_entropy(outputs, labels))


def transformer() -> Program:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, 3), nn.Linear(32, 32))
    return trains(model, torch.randn(4, 24, 32), lambda outputs: outputs.square().mean())


def recurrent() -> Program:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = nn.LSTMCell(8, 16), nn.Linear(16, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            state, memory = torch.zeros(2, 4, 16)
            outputs = []
            for moment in x.unbind(1):
                state, memory = self.cell(moment, (state, memory))
                outputs.append(self.head(state))
            return torch.stack(outputs, 1)

    return trains(Model(), torch.randn(4, 40, 8), lambda outputs: outputs.square().mean())


def adversarial() -> Program:
    """Two models with losses that are added up after their backward passes, to be shown."""
    generator, critic = nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.2), nn.Linear(8, 1))
    optimizers = [torch.optim.SGD(model.parameters(), 0.01, fused=True) for model in (generator, critic)]
    shown: list[torch.Tensor] = []

    def step(_number: int) -> None:
        critic.zero_grad()
        real = F.softplus(-critic(torch.randn(4, 8))).mean()
        real.backward()
        fake = F.softplus(critic(generator(torch.randn(4, 8)).detach())).mean()
        fake.backward()
        shown.append((real + fake).detach())
        optimizers[1].step()
        generator.zero_grad()
        F.softplus(-critic(generator(torch.randn(4, 8)))).mean().backward()
        optimizers[0].step()

    return step


def evaluates() -> Program:
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 3)).eval()
    samples = TensorDataset(torch.randn(64, 8), torch.randint(3, (64,)))

    def epoch(_number: int) -> None:
        correct = torch.zeros((), dtype=torch.int64)
        with torch.inference_mode():
            for inputs, labels in samples_of(samples):
                correct += (model(inputs).argmax(1) == labels).sum()
        assert correct.item() >= 0

    return epoch


def samples_of(samples: TensorDataset) -> list[tuple[torch.Tensor, torch.Tensor]]:
    inputs, labels = samples.tensors
    return list(zip(inputs.split(16), labels.split(16), strict=True))


def checkpointed() -> Program:
    layers = nn.ModuleList(nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.1)) for _ in range(6))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = layers

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
            return x

    return trains(Model(), torch.randn(4, 16), lambda outputs: outputs.square().mean())


PROGRAMS = [residual_network, transformer, recurrent, adversarial, evaluates, checkpointed]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_nothing_is_wrong(program: Callable[[], Program]) -> None:
    assert sure(record_steps(program())) == []


def test_loading_with_workers_is_well() -> None:
    samples = TensorDataset(torch.randn(64, 3, 32, 32), torch.randint(10, (64,)))
    loader = DataLoader(samples, batch_size=16, num_workers=1, persistent_workers=True)
    # Taking over a batch costs a talk with the worker: a step must be long beside that on a busy machine too.
    model = nn.Sequential(
        *(nn.Conv2d(3, 64, 5), nn.ReLU(), nn.Conv2d(64, 64, 5), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))
    )
    model(samples.tensors[0][:2])
    optimizer = torch.optim.SGD(model.parameters(), 0.01, fused=True)

    def epoch(_number: int) -> None:
        batches: Any = iter(loader)
        await_next(batches)
        for images, labels in batches:
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
            await_next(batches)

    def await_next(batches: Any) -> None:
        """However busy the machine is, the worker is ahead of the loop."""
        while batches._rcvd_idx < len(loader) and batches._data_queue.empty():
            pass

    epoch(0)  # starts the worker
    assert sure(record_steps(epoch)) == []
    loader._iterator = None  # ends it


EXAMPLES = ["manual/train.py", "zero-code/train_cnn.py", "zero-code/train_transformer.py"]


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_are_examples(example: str, tmp_path: Path) -> None:
    program = (
        "import runpy, sys\n"
        "from otel_torchprof.recorder.capture import Capture\n"
        "from otel_torchprof.recorder.capture_options import CaptureOptions\n"
        "options = CaptureOptions(record_shapes=True, profile_memory=True, with_stack=True, "
        "with_modules=True)\n"
        "capture = Capture(sys.argv[1], options)\n"
        "path, sys.argv = sys.argv[2], sys.argv[2:]\n"
        "capture.start()\n"
        "runpy.run_path(path, run_name='__main__')\n"
        "capture.stop()\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "all.tprof"), str(ROOT / "examples" / example)]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sure(load(tmp_path / "all.tprof")[0]) == []
