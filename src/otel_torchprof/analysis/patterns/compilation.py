"""Compiled code that is compiled again."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from otel_torchprof.analysis.patterns.finding import Level
from otel_torchprof.analysis.patterns.pattern import Match, pattern
from otel_torchprof.analysis.patterns.view import View

_REGION = re.compile(r"^Torch-Compiled Region: (\d+)/(\d+)$")
_MIN_RECOMPILATIONS = 2  # the first makes sizes dynamic, as it should
_MIN_COMPILE_NS = 10_000_000


@pattern(
    "recompilation",
    title="Compiled code is compiled again and again",
    why="Each compilation takes seconds, and after a few torch.compile gives up and runs the frame "
    "uncompiled.",
    found=f"At least {_MIN_RECOMPILATIONS} versions of one frame (`Torch-Compiled Region: 0/1`, `0/2`, "
    "...) that were "
    f"first run in the recording, each more than {_MIN_COMPILE_NS // 1_000_000} ms after the cache was "
    "asked for it.",
    advice="Find out what changes with TORCH_LOGS=recompiles, and mark sizes that vary as dynamic.",
    example="model = torch.compile(model, dynamic=True)\ntorch._dynamo.mark_dynamic(x, 0)",
    limits="Versions that were compiled before the recording began are not seen.",
    url="https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html",
)
def recompilation(view: View) -> Iterator[Match]:
    regions = np.flatnonzero(view.where_name(_REGION.match))
    _names, first = np.unique(view.text_id[regions], return_index=True)
    rows = np.sort(regions[first])
    asks = np.flatnonzero(view.where_name(lambda name: name.startswith("TorchDynamo Cache Lookup")))
    place = np.searchsorted(asks, rows) - 1
    asked = place >= 0
    rows, before = rows[asked], asks[place[asked]]
    versions = [_REGION.match(view.name(row)) for row in rows.tolist()]
    frames = np.array([int(version[1]) if version else -1 for version in versions], dtype=np.int64)
    later = np.array([bool(version and int(version[2])) for version in versions], dtype=bool)
    cost_ns = view.events.start_ns[rows] - view.events.end_ns[before]
    same_thread = view.events.track[rows] == view.events.track[before]
    compiled = later & same_thread & (cost_ns >= _MIN_COMPILE_NS)
    for frame in np.unique(frames[compiled]).tolist():
        chosen = compiled & (frames == frame)
        if chosen.sum() >= _MIN_RECOMPILATIONS:
            detail = f"frame {frame} was compiled again {int(chosen.sum())} times"
            yield Match(rows[chosen], Level.HIGH, detail, cost_ns[chosen], saving=(0.5, 1.0))
