"""Python's garbage collector, called by hand."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from otel_torchprof.analysis.patterns.finding import Level
from otel_torchprof.analysis.patterns.pattern import Match, Need, pattern
from otel_torchprof.analysis.patterns.view import NONE, View
from otel_torchprof.recording import EventKind

_MIN_STEPS = 2


@pattern(
    "garbage-collection-in-step",
    title="Steps collect garbage by hand",
    needs=(Need.STACKS, Need.STEPS),
    why="A full collection visits every object of the program, which takes longer the more is loaded.",
    found=f"`gc.collect` in at least {_MIN_STEPS} steps.",
    advice="Leave gc.collect() out of the loop, or call it once every so many steps.",
    example="gc.freeze()  # after the model is built: what lives as long as the program is visited no more",
    limits="Collections that Python starts by itself are no calls and are not seen: "
    "`torch.python.gc_pause` counts "
    "them.",
    url="https://docs.python.org/3/library/gc.html#gc.freeze",
)
def garbage_collection_in_step(view: View) -> Iterator[Match]:
    # torch.profiler leaves the module out.
    calls = view.of_kind(EventKind.PYTHON_C) & view.named("gc.collect", "collect")
    rows = np.flatnonzero(calls & (view.step != NONE))
    steps = view.steps_with(rows)
    if steps >= _MIN_STEPS:
        yield Match(rows, Level.HIGH, f"gc.collect() in {steps} steps", saving=(0.8, 1.0))
