"""What recording adds to one `torch.add` on four floats: ours, an empty callback, and Kineto."""

from __future__ import annotations

import contextlib
import ctypes
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import repeat
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.pairing import paired
from benchmarks.rows import Row, Target
from otel_torchprof.recorder.bridge_build import compile_library
from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.capture_options import CaptureOptions
from otel_torchprof.recorder.torch_build import TorchBuild

_NATIVE = Path(__file__).parent / "native"
_BLOCK_OPS = 500

Recorder = Callable[[], AbstractContextManager[object]]


def run(quick: bool) -> list[Row]:
    """Measures the rows "record an op" of the table; needs a C++ compiler for the anchor."""
    blocks, repeats = (20, 3) if quick else (100, 9)

    def measure(ours: Recorder, anchor: Recorder) -> tuple[float, float]:
        figures = paired(lambda: added_ns(ours, blocks), lambda: added_ns(anchor, blocks), repeats)
        return figures.a, figures.b

    with compiled_empty_callback() as empty_callback:
        ours, empty = measure(_ours_with(), empty_callback)
    ours_beside_kineto, kineto = measure(_ours_with(), _kineto_with())
    extras = {
        "shapes": {"record_shapes": True},
        "memory": {"profile_memory": True},
        "shapes and memory": {"record_shapes": True, "profile_memory": True},
    }
    with_extras = {
        extra: measure(_ours_with(**options), _kineto_with(**options)) for extra, options in extras.items()
    }
    return [
        Row("record an op", ours, "ns/op", "empty callback", empty, Target("at most", 1.3)),
        Row("record an op", ours_beside_kineto, "ns/op", "Kineto", kineto, Target("at most", 0.4)),
        *(
            Row(
                f"record an op with {extra}",
                figure,
                "ns/op",
                f"Kineto with {extra}",
                anchor,
                Target("at most", 0.5),
            )
            for extra, (figure, anchor) in with_extras.items()
        ),
    ]


def added_ns(recorder: Recorder, blocks: int) -> float:
    """Nanoseconds that `recorder` adds to an op: blocks of a loop inside it minus the same just before.

    The median block counts: the scheduler interrupts some blocks, not most.
    """
    a, b = torch.ones(4), torch.ones(4)

    def block_ns() -> int:
        add = torch.add
        start_ns = time.perf_counter_ns()
        for _ in repeat(None, _BLOCK_OPS):
            add(a, b)
        return time.perf_counter_ns() - start_ns

    def median_block_ns() -> float:
        block_ns()  # names are interned, caches warm
        return median(block_ns() for _ in range(blocks)) / _BLOCK_OPS

    plain_ns = median_block_ns()
    with recorder():
        recorded_ns = median_block_ns()
    return recorded_ns - plain_ns


def _ours_with(**options: Any) -> Recorder:
    """A capture with these CaptureOptions."""

    @contextlib.contextmanager
    def captured() -> Iterator[None]:
        capture = Capture(options=CaptureOptions(**options))
        capture.start()
        try:
            yield
        finally:
            capture.stop()

    return captured


def _kineto_with(**options: Any) -> Recorder:
    """torch.profiler with these options."""
    return lambda: torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **options)


@contextlib.contextmanager
def compiled_empty_callback() -> Iterator[Recorder]:
    """Compiles and loads the empty callback, and yields what switches it on and off."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "empty_callback.so"
        source = _NATIVE / "empty_callback.cpp"
        compile_library(TorchBuild.of(torch), [source], _NATIVE, path, environ=os.environ)
        library = ctypes.CDLL(str(path))

    @contextlib.contextmanager
    def enabled() -> Iterator[None]:
        library.empty_callback_enable()
        try:
            yield
        finally:
            library.empty_callback_disable()

    yield enabled
