"""Memory that is given back to the device and asked for again."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from otel_torchprof.analysis.patterns.finding import Level
from otel_torchprof.analysis.patterns.pattern import Match, Need, pattern
from otel_torchprof.analysis.patterns.view import View
from otel_torchprof.recording import EventKind

_WARM_UP = 2  # steps
_MIN_STEPS = 2
_CALL = re.compile(r"^(?:cuda|hip)(?:Malloc|Free)$")


@pattern(
    "allocator-thrash",
    title="Device memory is freed and allocated in every step",
    needs=(Need.DEVICE, Need.STEPS),
    why="Calls to the driver's allocator wait for the device and take a thousand times as long as those "
    "of the cache.",
    found=f"`cudaMalloc` or `cudaFree` in at least {_MIN_STEPS} steps after the first {_WARM_UP}.",
    advice="Leave out torch.cuda.empty_cache(); where sizes change from step to step, let segments grow.",
    example="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py",
    limits="Other libraries that allocate for themselves count too. A recording that begins with the "
    "program has "
    "longer warm-up.",
    url="https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management",
)
def allocator_thrash(view: View) -> Iterator[Match]:
    calls = view.of_kind(EventKind.RUNTIME) & view.where_name(_CALL.match)
    rows = np.flatnonzero(calls & (view.step >= _WARM_UP))
    steps = view.steps_with(rows)
    if steps >= _MIN_STEPS:
        yield Match(rows, Level.HIGH, f"{len(rows)} calls in {steps} steps after warm-up", saving=(0.8, 1.0))
