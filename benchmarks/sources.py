"""What each source adds to an op, alone and all together, beside torch.profiler with the same options.

One training step of a small network: ops that ask for shapes, modules that call each other, allocations and
Python calls, all on one thread, whose processor time is measured. The recorders take turns within one run, so
that a machine that slows down slows all of them; what counts is their ratio.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

from benchmarks.record_op import compiled_empty_callback
from benchmarks.rows import Row, Target
from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.capture_options import CaptureOptions

_STEPS_A_BLOCK = 10
_COUNTERS = ("task-clock", "page-faults", "context-switches")

Recorder = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True)
class Compared:
    """Options of ours, and torch.profiler's of the same meaning; None where it has none."""

    name: str
    options: CaptureOptions
    torch_options: dict[str, Any] | None
    target: Target | None = None


COMPARED = (
    Compared("alone", CaptureOptions(), {}),
    Compared("with shapes", CaptureOptions(record_shapes=True), {"record_shapes": True}),
    Compared("with memory", CaptureOptions(profile_memory=True), {"profile_memory": True}),
    Compared("with modules", CaptureOptions(with_modules=True), {"with_stack": True, "with_modules": True}),
    Compared("with stacks", CaptureOptions(with_stack=True), {"with_stack": True}),
    Compared("with counters over steps", CaptureOptions(counters=_COUNTERS), None),
    Compared("with counters over ops", CaptureOptions(counters=_COUNTERS, counter_scope="op"), None),
    Compared(
        "with shapes and memory",
        CaptureOptions(record_shapes=True, profile_memory=True),
        {"record_shapes": True, "profile_memory": True, "with_stack": True},
        Target("at most", 0.5),
    ),
    Compared(
        "with all of them",
        CaptureOptions(
            record_shapes=True, profile_memory=True, with_modules=True, with_stack=True, counters=_COUNTERS
        ),
        {"record_shapes": True, "profile_memory": True, "with_stack": True, "with_modules": True},
    ),
)


def run(quick: bool) -> list[Row]:
    """Measures each source. One that does not record here is left out, and said to be."""
    rounds = 3 if quick else 15
    step, ops = _training_step()
    recorders: dict[tuple[str, str], Recorder] = {}
    missing: dict[str, str] = {}
    for compared in COMPARED:
        if reason := _missing(compared.options, step):
            missing[compared.name] = reason
            continue
        recorders[compared.name, "ours"] = _ours(compared.options)
        if compared.torch_options is not None:
            recorders[compared.name, "torch"] = _torch(compared.torch_options)
    with compiled_empty_callback() as empty_callback:
        recorders["alone", "empty"] = empty_callback
        added_ns = measure(step, recorders, rounds)
    alone, empty = (added_ns["alone", whose] / ops for whose in ("ours", "empty"))
    rows = [Row("an op alone", alone, "ns/op", "empty callback", empty)]
    for compared in COMPARED:
        name = f"an op {compared.name}"
        if compared.name in missing:
            rows.append(Row(f"{name}: {missing[compared.name]}", float("nan"), "ns/op"))
            continue
        ours = added_ns[compared.name, "ours"] / ops
        theirs = added_ns.get((compared.name, "torch"))
        anchor = None if theirs is None else theirs / ops
        anchor_name = "" if anchor is None else _torch_name(compared.torch_options or {})
        rows.append(Row(name, ours, "ns/op", anchor_name, anchor, compared.target))
    return rows


def measure(
    step: Callable[[], None], recorders: dict[tuple[str, str], Recorder], rounds: int
) -> dict[tuple[str, str], float]:
    """Nanoseconds that each recorder adds to a step: the median of the rounds, each beside a plain block."""
    added: dict[tuple[str, str], list[float]] = {key: [] for key in recorders}
    for turn in range(rounds + 1):
        for key, recorder in recorders.items():
            plain_ns = _block_ns(step)
            with recorder():
                step()  # names are interned, caches warm
                recorded_ns = _block_ns(step)
            if turn:  # the first round is for warming up
                added[key].append(recorded_ns - plain_ns)
    return {key: median(figures) for key, figures in added.items()}


def _block_ns(step: Callable[[], None]) -> float:
    """Of one step: the median of a block of them."""
    times = []
    for _ in range(_STEPS_A_BLOCK):
        start_ns = time.thread_time_ns()
        step()
        times.append(time.thread_time_ns() - start_ns)
    return median(times)


def _training_step() -> tuple[Callable[[], None], int]:
    """A step whose ops are small, so that what is added to them shows; and how many ops it has."""
    torch.manual_seed(0)
    layers = [layer for _ in range(8) for layer in (torch.nn.Linear(8, 8), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    inputs = torch.randn(4, 8)

    def step() -> None:
        optimizer.zero_grad()
        model(inputs).sum().backward()
        optimizer.step()

    step()
    capture = Capture()
    capture.start()
    step()
    return step, len(capture.stop())


def _missing(options: CaptureOptions, step: Callable[[], None]) -> str:
    """Why the options cannot be had here; empty when they can."""
    capture = Capture(options=options)
    capture.start()
    step()
    states = capture.stop().metadata.get("sources", {})
    return "; ".join(f"{source} {state}" for source, state in states.items() if state != "on")


def _ours(options: CaptureOptions) -> Recorder:
    @contextlib.contextmanager
    def recorder() -> Iterator[None]:
        capture = Capture(options=options)
        capture.start()
        try:
            yield
        finally:
            capture.halt()

    return recorder


def _torch(options: dict[str, Any]) -> Recorder:
    activities = [torch.profiler.ProfilerActivity.CPU]
    return lambda: torch.profiler.profile(activities=activities, **options)


def _torch_name(options: dict[str, Any]) -> str:
    named = {"record_shapes": "shapes", "profile_memory": "memory", "with_stack": "stacks"}
    return " ".join(["torch.profiler", *(word for option, word in named.items() if options.get(option))])
