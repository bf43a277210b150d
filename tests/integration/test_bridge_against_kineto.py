"""What is recorded of each op equals the raw results of torch.profiler, which runs at the same time."""
# torch is not type-checked here: its classes and decorators are Any.
# mypy: disable-error-code="misc,no-any-return,untyped-decorator,no-untyped-call"

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from otel_torchprof.recording import InputList, Recording, TensorInput
from tests.support.recorded_ops import Op, kineto_events, ops_of, record

WORK = "the work that is compared"
# Kineto copies sequence and forward thread from the backward op inside these; torch itself gives them none.
ENGINE = "autograd::engine::evaluate_function"
# The names Kineto gives to dtypes.
KINETO_DTYPES = {
    "float32": "float",
    "float64": "double",
    "int64": "long int",
    "bool": "bool",
    "complex64": "c10::complex<float>",
}


def training_step() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=True)
    for _ in range(2):
        model(torch.ones(3, 4)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def backward_on_two_threads() -> None:
    def run() -> None:
        weight = torch.ones(4, requires_grad=True)
        (weight * 2).sum().backward()

    losses = [(torch.ones(2, requires_grad=True) * 3).sum() for _ in range(2)]
    for loss in losses:
        for target in (run, loss.backward):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()


@torch.jit.script
def forked(x: torch.Tensor) -> torch.Tensor:
    future = torch.jit.fork(torch.sin, x)
    return torch.cos(x) + torch.jit.wait(future)


def jit_fork() -> None:
    forked(torch.ones(4))


def future() -> None:
    pending: torch.futures.Future[int] = torch.futures.Future()
    with torch.profiler.record_function("until the future is done") as scope:
        done = scope._call_end_callbacks_on_future(pending)
    torch.ones(2)
    thread = threading.Thread(target=lambda: pending.set_result(1))
    thread.start()
    thread.join()
    done.wait()


def double_backward() -> None:
    x = torch.ones(3, requires_grad=True)
    (gradient,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    gradient.sum().backward()


WORKS = [training_step, backward_on_two_threads, jit_fork, future, double_backward]


def record_both(work: Callable[[], object], **options: Any) -> tuple[Recording, list[Op], list[Any]]:
    """Runs `work` once under both recorders; what they do to each other at the ends is left out."""
    raw: list[Any] = []

    def compared() -> None:
        with torch.profiler.record_function(WORK):
            work()

    recording = record(lambda: raw.extend(kineto_events(compared, **options)), **options)
    ours = ops_of(recording)
    (whole,) = (op for op in ours if op.name == WORK)
    (kineto_whole,) = (event for event in raw if event.name() == WORK)
    return (
        recording,
        [op for op in ours if whole.start_ns < op.start_ns < whole.end_ns],
        [event for event in raw if kineto_whole.start_ns() < event.start_ns() < kineto_whole.end_ns()],
    )


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.__name__)
def test_every_event_once_with_all_it_says(work: Callable[[], object]) -> None:
    _, ours, raw = record_both(work)
    assert raw
    assert Counter((op.name, op.overload, op.scope, op.thread) for op in ours) == Counter(
        (event.name(), event.overload_name(), event.scope(), event.start_thread_id()) for event in raw
    )
    assert Counter(
        # Kineto tells a forward thread only together with a sequence number.
        (op.name, op.sequence, op.forward_thread if op.sequence >= 0 else 0)
        for op in ours
        if not op.name.startswith(ENGINE)
    ) == Counter(
        (event.name(), event.sequence_nr(), event.fwd_thread_id())
        for event in raw
        if not event.name().startswith(ENGINE)
    )


def test_order_and_times_on_a_thread() -> None:
    _, ours, raw = record_both(training_step)
    in_order = sorted(raw, key=lambda event: (event.start_ns(), -event.end_ns()))
    assert [op.name for op in ours] == [event.name() for event in in_order]
    for op, event in zip(ours, in_order, strict=True):
        # The clocks differ by their calibration, and a busy machine stops a thread between two callbacks.
        assert abs(op.start_ns - event.start_ns()) < 50_000_000
        assert op.end_ns >= op.start_ns


def input_works() -> list[Callable[[], object]]:
    x, y = torch.ones(2, 3), torch.ones(4, 3).t()
    z = torch.ones(3, dtype=torch.complex64)
    return [
        lambda: torch.add(x, 1.5, alpha=2),
        lambda: torch.mm(x, y),
        lambda: torch.cat([x, x.t().reshape(2, 3)], dim=1),
        lambda: torch._foreach_add([x, y], 1),
        lambda: torch.sum(x, dim=[0, 1], keepdim=True),
        lambda: z * (2 + 1j),
        lambda: torch.clamp(x, min=None, max=0.5),
        lambda: x[torch.tensor([0, 1])],
        lambda: x[None].expand(5, 2, 3),
        lambda: torch.where(x > 0, x, x.double()),
        lambda: x.view(3, 2).transpose(0, 1).as_strided([2], [1]),
        lambda: nn.functional.conv2d(torch.ones(1, 1, 4, 4), torch.ones(1, 1, 2, 2), padding=[1, 1]),
    ]


@pytest.mark.parametrize("number", range(len(input_works())))
def test_inputs_equal_kinetos(number: int) -> None:
    recording, ours, raw = record_both(input_works()[number], record_shapes=True)
    in_order = sorted(raw, key=lambda event: (event.start_ns(), -event.end_ns()))
    assert [op.name for op in ours] == [event.name() for event in in_order]
    compared = 0
    for op, event in zip(ours, in_order, strict=True):
        inputs = recording.inputs(op.row) or []
        assert len(inputs) == len(event.dtypes())
        fields = (event.dtypes(), event.structured_input_shapes(), event.structured_input_strides())
        for value, dtype, shape, strides in zip(inputs, *fields, strict=True):
            if dtype == "TensorList":
                assert isinstance(value, InputList)
                tensors = [item for item in value.items if isinstance(item, TensorInput)]
                assert [list(tensor.sizes) for tensor in tensors] == shape
                assert [list(tensor.strides or ()) for tensor in tensors] == strides
            elif dtype in KINETO_DTYPES.values():
                assert isinstance(value, TensorInput)
                assert KINETO_DTYPES[value.dtype] == dtype
                assert (list(value.sizes), list(value.strides or ())) == (shape, strides)
            compared += dtype != ""
        for value, concrete in zip(inputs, event.concrete_inputs(), strict=True):
            if isinstance(concrete, list):
                assert isinstance(value, InputList)
                assert list(value.items) == concrete
            elif concrete is not None:
                assert value == concrete
                assert type(value) is type(concrete)
    assert compared
