"""What a scope costs the program: `span` beside torch's `record_function` and `_RecordFunctionFast`.

Off, nothing records. On, each records into its own: ours into a capture, torch's into Kineto.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import repeat
from statistics import median
from typing import Any

import torch

from benchmarks.pairing import paired
from benchmarks.rows import Row, Target
from otel_torchprof import span
from otel_torchprof.recorder.capture import Capture

_BLOCK_SCOPES = 200

Scope = Callable[[str], AbstractContextManager[Any]]
Recorder = Callable[[], AbstractContextManager[Any]]


class _Captured:
    def __enter__(self) -> None:
        self._capture = Capture()
        self._capture.start()

    def __exit__(self, *exception: object) -> None:
        self._capture.stop()


def _by_kineto() -> Any:
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])


def _block_ns(scope: Scope) -> int:
    start_ns = time.perf_counter_ns()
    for _ in repeat(None, _BLOCK_SCOPES):
        with scope("scope"):
            pass
    return time.perf_counter_ns() - start_ns


def _empty_block_ns() -> int:
    start_ns = time.perf_counter_ns()
    for _ in repeat(None, _BLOCK_SCOPES):
        pass
    return time.perf_counter_ns() - start_ns


def _scope_us(scope: Scope, recorder: Recorder, blocks: int) -> float:
    """Microseconds a scope takes; the median block counts, as the scheduler interrupts some."""
    with recorder():
        _block_ns(scope)  # names are interned, caches warm
        scopes_ns = median(_block_ns(scope) for _ in range(blocks))
        loop_ns = median(_empty_block_ns() for _ in range(blocks))
    return (scopes_ns - loop_ns) / _BLOCK_SCOPES / 1000


def run(quick: bool) -> list[Row]:
    """Measures the rows "span" of the table."""
    blocks, repeats = (10, 1) if quick else (100, 7)
    torchs: dict[str, Scope] = {
        "record_function": torch.profiler.record_function,
        "_RecordFunctionFast": torch._C._profiler._RecordFunctionFast,
    }
    states: list[tuple[str, Recorder, Recorder, float]] = [
        ("off", nullcontext, nullcontext, 0.1),
        ("on", _Captured, _by_kineto, 0.4),
    ]
    rows: list[Row] = []
    for state, our_recorder, torchs_recorder, limit_us in states:
        for name, scope in torchs.items():
            figures = paired(
                partial(_scope_us, span, our_recorder, blocks),
                partial(_scope_us, scope, torchs_recorder, blocks),
                repeats,
            )
            target = Target("at most", limit_us, of="ours")
            rows.append(Row(f"span, {state}", figures.a, "us", name, figures.b, target))
    return rows
