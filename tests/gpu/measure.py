"""What recording a GPU costs: a launch, beside torch's own profiler, and the process after a window.

python -m tests.gpu.measure            all, one row a figure
python -m tests.gpu.measure ours       one recorder, as JSON, in this process
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from otel_torchprof.analysis.event_names import short_kernel_name
from otel_torchprof.recording import EventKind, Recording
from tests.gpu.programs import PROGRAMS, record, run_module

_LAUNCHES = 5_000
_REPEATS = 7
_NS_PER_S = 1_000_000_000


def launch_ns() -> float:
    """Host time a launch, median of some repeats; the device keeps up with kernels this small."""
    import torch

    x = torch.ones(1, device="cuda")
    times = []
    for _ in range(_REPEATS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(_LAUNCHES):
            x.add_(1)
        times.append((time.perf_counter() - begin) * _NS_PER_S / _LAUNCHES)
    torch.cuda.synchronize()
    return median(times)


def measure(recorder: str) -> dict[str, float]:
    """Before, within and after a window of one recorder."""
    import torch

    launch_ns()  # clocks rise
    before = launch_ns()
    if recorder == "none":
        return {"before": before, "within": launch_ns(), "after": launch_ns()}
    made: Callable[[], Any]
    if recorder == "torch":
        made = torch.profiler.profile
    else:
        from otel_torchprof import profile

        def made() -> Any:
            return profile(device="on" if recorder == "ours" else "off", buffer_size_bytes=1 << 30)

    with made():
        within = launch_ns()
    return {"before": before, "within": within, "after": launch_ns()}


def rows() -> list[tuple[str, str]]:
    """Each figure with what it is of."""
    found: list[tuple[str, str]] = []
    recorders = {
        "none": "no recorder",
        "ops": "ours, ops alone",
        "ours": "ours, with the device",
        "torch": "torch.profiler",
    }
    for recorder, name in recorders.items():
        times = json.loads(run_module("tests.gpu.measure", recorder))
        added = times["within"] - times["before"]
        left = times["after"] / times["before"] - 1
        found.append(
            (
                f"a launch, {name}",
                f"{times['before']:.0f} ns before, {added:+.0f} ns recorded, {left:+.1%} after",
            )
        )
    with TemporaryDirectory() as folder:
        for program in PROGRAMS:
            ours = record(program, "ours", Path(folder) / "ours.tprof")
            torchs = record(program, "torch", Path(folder) / "torch.json")
            found.append((f"durations of {program}", _deviation(ours, torchs)))
    return found


def _deviation(ours: Recording, torchs: Recording) -> str:
    """By how much the median durations of kernels of one name differ: two runs, so that some always do."""
    mine, theirs = _medians(ours), _medians(torchs)
    shared = mine.keys() & theirs.keys()
    if not shared:
        return "no kernel in both"
    worst = max(shared, key=lambda name: abs(mine[name] / theirs[name] - 1))
    within = sum(abs(mine[name] / theirs[name] - 1) <= 0.05 for name in shared)
    return f"{within} of {len(shared)} kernels within 5 %, the worst {mine[worst] / theirs[worst] - 1:+.1%}"


def _medians(recording: Recording) -> dict[str, float]:
    events = recording.events
    durations: dict[str, list[int]] = {}
    for row in (events.kind == EventKind.KERNEL).nonzero()[0].tolist():
        name = short_kernel_name(recording.event_name(row))
        durations.setdefault(name, []).append(int(events.end_ns[row] - events.start_ns[row]))
    return {name: median(lasted) for name, lasted in durations.items()}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1])))
    else:
        for what, figure in rows():
            print(f"{what}\t{figure}", flush=True)
