"""Compiled code that is compiled again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from otel_torchprof.analysis.compilations import MIN_COMPILE_NS, compilations
from otel_torchprof.analysis.patterns.finding import Level
from otel_torchprof.analysis.patterns.pattern import Match, pattern
from otel_torchprof.analysis.patterns.view import View

_MIN_RECOMPILATIONS = 2  # the first makes sizes dynamic, as it should


@pattern(
    "recompilation",
    title="Compiled code is compiled again and again",
    why="Each compilation takes seconds, and after a few torch.compile gives up and runs the frame "
    "uncompiled.",
    found=f"At least {_MIN_RECOMPILATIONS} versions of one frame (`Torch-Compiled Region: 0/1`, `0/2`, "
    "...) that were "
    f"first run in the recording, each more than {MIN_COMPILE_NS // 1_000_000} ms after the cache was "
    "asked for it.",
    advice="Find out what changes with TORCH_LOGS=recompiles, and mark sizes that vary as dynamic.",
    example="model = torch.compile(model, dynamic=True)\ntorch._dynamo.mark_dynamic(x, 0)",
    limits="Versions that were compiled before the recording began are not seen.",
    url="https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html",
)
def recompilation(view: View) -> Iterator[Match]:
    found = compilations(view.recording)
    again = found.where(found.version > 0)
    for frame in np.unique(again.frame).tolist():
        of_frame = again.where(again.frame == frame)
        if len(of_frame) >= _MIN_RECOMPILATIONS:
            detail = f"frame {frame} was compiled again {len(of_frame)} times"
            yield Match(of_frame.rows, Level.HIGH, detail, of_frame.cost_ns, saving=(0.5, 1.0))
