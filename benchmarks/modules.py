"""What recording modules adds to a call: ours, torch's global hooks, and torch.profiler with stacks."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import repeat

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from benchmarks.pairing import paired
from benchmarks.rows import Row, Target
from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.capture_options import CaptureOptions

_BLOCK_CALLS = 10
_CHILDREN = 8

Recorder = Callable[[], AbstractContextManager[object]]


def run(quick: bool) -> list[Row]:
    """Measures the rows "record a module call"."""
    blocks, repeats = (50, 3) if quick else (300, 9)
    rows = []
    for name, anchor, target in (
        ("torch's global hooks, empty", _empty_hooks, Target("at most", 0.6)),
        ("torch.profiler, with_modules (records none)", _profiler(with_modules=True), None),
        ("torch.profiler, with_stack", _profiler(with_stack=True), Target("at most", 0.5)),
    ):
        figures = paired(
            lambda: added_ns(_ours, blocks), functools.partial(added_ns, anchor, blocks), repeats
        )
        rows.append(Row("record a module call", figures.a, "ns/call", name, figures.b, target))
    return rows


def added_ns(recorder: Recorder, blocks: int) -> float:
    """Nanoseconds that `recorder` adds to the call of a module that does nothing, within another."""
    model = nn.Sequential(*(nn.Identity() for _ in range(_CHILDREN)))
    x = torch.zeros(1)
    calls = blocks * _BLOCK_CALLS * (_CHILDREN + 1)
    plain_ns = _time_ns(model, x, blocks)
    with recorder():
        recorded_ns = _time_ns(model, x, blocks)
    return (recorded_ns - plain_ns) / calls


def _time_ns(model: nn.Module, x: torch.Tensor, blocks: int) -> int:
    """The fastest block, times all: what else the machine does only ever adds."""
    fastest_ns = 0
    for _ in range(blocks):
        start_ns = time.perf_counter_ns()
        for _ in repeat(None, _BLOCK_CALLS):
            model(x)
        block_ns = time.perf_counter_ns() - start_ns
        fastest_ns = min(fastest_ns or block_ns, block_ns)
    return fastest_ns * blocks


@contextlib.contextmanager
def _ours() -> Iterator[None]:
    capture = Capture(options=CaptureOptions(with_modules=True))
    capture.start()
    try:
        yield
    finally:
        capture.halt()


@contextlib.contextmanager
def _empty_hooks() -> Iterator[None]:
    handles = (
        register_module_forward_pre_hook(_pre_hook),
        register_module_forward_hook(_hook, always_call=True),
    )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _pre_hook(_module: nn.Module, _inputs: object) -> None:
    torch.compiler.is_compiling()


def _hook(_module: nn.Module, _inputs: object, _output: object) -> None:
    torch.compiler.is_compiling()


def _profiler(**options: bool) -> Recorder:
    return lambda: torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **options)
