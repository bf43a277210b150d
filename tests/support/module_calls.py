"""Calls of modules as plain values: those that a capture recorded, and those that hooks of torch saw."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from otel_torchprof.recording import EventFlags, EventKind, Recording
from tests.support.recorded_ops import record


@dataclass(frozen=True)
class ModuleCall:
    """One event of kind module."""

    row: int
    name: str
    path: str
    flags: EventFlags
    around: str | None  # path of the module call around it


def calls_of(recording: Recording) -> list[ModuleCall]:
    """All module calls, by track and start."""
    events, tree = recording.events, recording.tree()
    calls: dict[int, ModuleCall] = {}
    for row in range(len(recording)):
        if events.kind[row] != EventKind.MODULE:
            continue
        around = next((calls[above].path for above in tree.ancestors(row) if above in calls), None)
        name = int(events.name[row])
        calls[row] = ModuleCall(
            row,
            recording.name(name),
            recording.overload_name(name),
            EventFlags(int(events.flags[row])),
            around,
        )
    return list(calls.values())


def record_modules(work: Callable[[], object]) -> list[ModuleCall]:
    """The module calls of `work`."""
    return calls_of(record(work, with_modules=True))


def paths_of(calls: list[ModuleCall]) -> list[tuple[str, str]]:
    """Class and path of each call, in order."""
    return [(call.name, call.path) for call in calls]


@contextmanager
def hooked(model: nn.Module) -> Iterator[list[tuple[str, str]]]:
    """Class and `named_modules()` path of each call in the order of their starts, as hooks see them."""
    seen: list[tuple[str, str]] = []

    def hook_for(path: str) -> Callable[[nn.Module, object], None]:
        return lambda module, _inputs: seen.append((type(module).__name__, path))

    handles = [module.register_forward_pre_hook(hook_for(path)) for path, module in model.named_modules()]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


class Block(nn.Module):
    """A residual block, with a way around it where the width changes."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.downsample = (
            nn.Sequential(nn.Conv2d(width_in, width, 1, bias=False), nn.BatchNorm2d(width))
            if width_in != width
            else None
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Twice a convolution, and around."""
        around = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(y)) + around)


class ResNet(nn.Module):
    """A small network of the shape of ResNet."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.layer1 = nn.Sequential(Block(4, 4), Block(4, 4))
        self.layer2 = nn.Sequential(Block(4, 8), Block(8, 8))
        self.fc = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of three classes."""
        x = self.layer2(self.layer1(self.stem(x)))
        return self.fc(x.mean((2, 3)))


def images() -> torch.Tensor:
    """Two images for `ResNet`."""
    return torch.randn(2, 3, 8, 8)


class Attention(nn.Module):
    """Self-attention of one head."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attends over all places."""
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return self.out(torch.softmax(q @ k.transpose(-1, -2), -1) @ v)


class EncoderLayer(nn.Module):
    """A layer of a transformer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attn = Attention(width)
        self.norm = nn.ModuleDict({"before": nn.LayerNorm(width), "after": nn.LayerNorm(width)})
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attention, then a perceptron."""
        x = x + self.attn(self.norm["before"](x))
        return x + self.mlp(self.norm["after"](x))


class Transformer(nn.Module):
    """Layers in a ModuleList that a loop calls, within a module that is never called itself."""

    def __init__(self, width: int = 8, layers: int = 3) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, width)
        self.encoder = nn.Module()
        self.encoder.layers = nn.ModuleList(EncoderLayer(width) for _ in range(layers))
        self.head = nn.Linear(width, 11)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Scores of the next token at each place."""
        x = self.embed(tokens)
        for layer in self.encoder.layers:
            x = layer(x)
        return self.head(x)


def tokens() -> torch.Tensor:
    """Two sequences for `Transformer`."""
    return torch.randint(0, 11, (2, 5))
