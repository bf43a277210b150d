"""Small programs of many kinds, to be recorded by torch's profiler and by ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils.checkpoint
import torch.utils.data
from torch import nn

from tests.support.threads import run_in_threads

Loop = Callable[[], Any]


def cnn() -> Loop:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))
    optimizer = torch.optim.Adam(model.parameters())
    values = torch.randn(2, 3, 8, 8)

    def step() -> None:
        optimizer.zero_grad()
        model(values).sum().backward()
        optimizer.step()

    return step


def rnn() -> Loop:
    model, values = nn.LSTM(4, 5, 2), torch.randn(3, 2, 4)
    return lambda: model(values)[0].sum().backward()


def transformer() -> Loop:
    model, values = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), torch.randn(2, 3, 8)
    return lambda: model(values).sum().backward()


def conv3d() -> Loop:
    values, weight = torch.randn(1, 2, 4, 4, 4), torch.randn(3, 2, 2, 2, 2, requires_grad=True)
    return lambda: torch.conv3d(values, weight).sum().backward()


def sparse() -> Loop:
    matrix = torch.eye(3).to_sparse()
    return lambda: torch.sparse.mm(matrix, torch.ones(3, 3))


def complex_numbers() -> Loop:
    return lambda: torch.fft.fft(torch.randn(8, dtype=torch.complex64)).abs()


def double_backward() -> Loop:
    def step() -> None:
        value = torch.randn(3, requires_grad=True)
        (gradient,) = torch.autograd.grad((value**3).sum(), value, create_graph=True)
        gradient.sum().backward()

    return step


def checkpoint() -> Loop:
    model, values = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)), torch.randn(2, 4)
    run: Any = torch.utils.checkpoint.checkpoint
    return lambda: run(model, values, use_reentrant=False).sum().backward()


def inference_mode() -> Loop:
    model, values = nn.Linear(4, 4), torch.randn(2, 4)

    def step() -> None:
        with torch.inference_mode():
            model(values)

    return step


def autocast() -> Loop:
    model, values = nn.Linear(4, 4), torch.randn(2, 4)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            model(values).sum().backward()

    return step


def vmap() -> Loop:
    values = torch.randn(3, 4)
    return lambda: torch.vmap(lambda value: value.sin() @ value)(values)


def scopes() -> Loop:
    def step() -> None:
        with torch.autograd.profiler.record_function("outer"):
            torch.ones(3).cos()
            with torch.autograd.profiler.record_function("inner"):
                torch.ones(3).sin()

    return step


def quantized() -> Loop:
    return lambda: torch.quantize_per_tensor(torch.randn(3), 0.1, 0, torch.qint8).dequantize()


def scripted() -> Loop:
    with_loop = """
def scripted(x):
    # type: (Tensor) -> Tensor
    for i in range(3):
        x = x.relu() + i
    return x
"""
    unit: Any = torch.jit.CompilationUnit(with_loop)
    values = torch.randn(4)
    return lambda: unit.scripted(values)


def subclass() -> Loop:
    class Tagged(torch.Tensor):
        pass

    values = torch.ones(3).as_subclass(Tagged)
    return lambda: values.cos() + 1


def custom_function() -> Loop:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, value: Any) -> Any:
            return value * 2

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            return gradient * 2

    values = torch.ones(3, requires_grad=True)
    return lambda: Twice.apply(values).sum().backward()


def forked_script() -> Loop:
    source = """
def child(x):
    # type: (Tensor) -> Tensor
    return x.relu()

def forked(x):
    # type: (Tensor) -> Tensor
    future = torch.jit.fork(child, x)
    return torch.jit.wait(future) + 1
"""
    unit: Any = torch.jit.CompilationUnit(source)
    values = torch.ones(3)
    return lambda: unit.forked(values)


def compiled() -> Loop:
    values = torch.ones(4, 4)
    run: Any = torch.compile(lambda value: (value.sin() + value.cos()) @ value, backend="aot_eager")
    return lambda: run(values)


def embedding_bag() -> Loop:
    model = nn.EmbeddingBag(5, 3)
    return lambda: model(torch.tensor([1, 2]), torch.tensor([0])).sum().backward()


class _Squares(torch.utils.data.Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.ones(2) * index**2


def data_loader() -> Loop:
    def step() -> None:
        for batch in torch.utils.data.DataLoader(_Squares(), batch_size=2, num_workers=1):
            batch.cos()

    return step


@torch.library.custom_op("profiled_loops::thrice", mutates_args=())
def _thrice(values: torch.Tensor) -> torch.Tensor:
    return values * 3


def _thrice_backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
    return gradient * 3


_thrice.register_autograd(_thrice_backward)


def custom_op() -> Loop:
    values = torch.ones(3, requires_grad=True)
    return lambda: _thrice(values).sum().backward()


def nested_tensor() -> Loop:
    model = nn.Linear(4, 3)
    parts = [torch.randn(2, 4), torch.randn(3, 4)]

    def step() -> None:
        values = torch.nested.nested_tensor(parts)
        torch.nested.to_padded_tensor(model(values).relu(), 0.0).sum().backward()

    return step


def replicas_in_threads() -> Loop:
    """As DataParallel works: the forward pass of each replica on a thread of its own, one backward pass."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    values = [torch.randn(2, 4), torch.randn(2, 4)]

    def step() -> None:
        outputs: list[torch.Tensor] = []
        run_in_threads(*(lambda part=part: outputs.append(model(part)) for part in values))
        torch.cat(outputs).sum().backward()

    return step


LOOPS = (
    compiled, embedding_bag, data_loader, custom_op, nested_tensor,
    cnn, rnn, transformer, conv3d, sparse, complex_numbers, double_backward, checkpoint, inference_mode,
    autocast, vmap, scopes, quantized, scripted, subclass, custom_function,
)  # fmt: skip
