"""Small models and a training step, for tests of what memory is used for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from otel_torchprof.analysis.memory import Category, DeviceMemory
from otel_torchprof.recording import Recording


@dataclass
class Training:
    """A model, its optimizer, and what makes its batches."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    make_batch: Callable[[], Tensor]

    def step(self) -> None:
        """One step; the moment at which gradients and state are all there is a scope called `updated`."""
        loss = self.model(self.make_batch()).square().mean()
        loss.backward()
        self.optimizer.step()
        with torch.profiler.record_function("updated"):
            pass
        self.optimizer.zero_grad(set_to_none=True)

    def parameter_bytes(self) -> int:
        return storage_bytes(self.model.parameters())

    def state_bytes(self) -> int:
        return storage_bytes(
            tensor
            for state in self.optimizer.state.values()
            for tensor in state.values()
            if isinstance(tensor, Tensor)
        )


def storage_bytes(tensors: object) -> int:
    """Of all storages behind some tensors, each once."""
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}  # type: ignore[attr-defined]
    return sum(storages.values())


def _adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def mlp() -> Training:
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 8))
    return Training(model, _adam(model), lambda: torch.randn(128, 64))


def cnn() -> Training:
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return Training(model, optimizer, lambda: torch.randn(16, 3, 32, 32))


def transformer() -> Training:
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
    model = nn.Sequential(nn.Linear(16, 32), nn.TransformerEncoder(layer, 2), nn.Linear(32, 4))
    return Training(model, _adam(model), lambda: torch.randn(16, 24, 16))


def in_use(memory: DeviceMemory, time_ns: int) -> dict[Category, int]:
    """Bytes by category at a time."""
    moment = int(memory.timeline.time_ns.searchsorted(time_ns, side="right")) - 1
    sizes = memory.timeline.bytes_by_category[moment]
    return {category: int(sizes[category]) for category in Category}


def times_of(recording: Recording, name: str) -> list[int]:
    """Starts of the events with a name, in order."""
    rows = [row for row in range(len(recording)) if recording.event_name(row) == name]
    return sorted(int(recording.events.start_ns[row]) for row in rows)
