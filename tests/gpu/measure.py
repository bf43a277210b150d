"""What recording a GPU costs: a launch, beside torch's own profiler, a window, and the process after it.

python -m tests.gpu.measure FOLDER           all, a row a figure; FOLDER as tests.gpu.golden made it
python -m tests.gpu.measure --recorder ours  one recorder, as JSON, in this process
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from otel_torchprof.importers import load
from tests.gpu.programs import OURS_AND_TORCHS, PROGRAMS, recording_path, run_module
from tests.support.device_comparison import durations, work

_LAUNCHES = 5_000
_REPEATS = 7
_WINDOWS = 6
_NS_PER_MS = 1_000_000
_SAME = 0.05
_FAILED = "failed: "

RECORDERS = {
    "none": "no recorder",
    "ops": "ours, ops alone",
    "ours": "ours, with the device",
    "torch": "torch.profiler",
}


def launch_ns() -> float:
    """Host time a launch, median of some repeats; the device keeps up with kernels this small."""
    import torch

    x = torch.ones(1, device="cuda")
    times = []
    for _ in range(_REPEATS):
        torch.cuda.synchronize()
        begin = time.perf_counter_ns()
        for _ in range(_LAUNCHES):
            x.add_(1)
        times.append((time.perf_counter_ns() - begin) / _LAUNCHES)
    torch.cuda.synchronize()
    return median(times)


def measure(recorder: str) -> dict[str, float]:
    """Before, within and after windows of one recorder, and what a window takes to begin and to end."""
    import torch

    launch_ns()  # clocks rise
    found = {"before": launch_ns()}
    if recorder == "none":
        return {**found, "within": launch_ns(), "after": launch_ns()}
    begins_ns, ends_ns = zip(*(_window_ns(recorder) for _ in range(_WINDOWS)), strict=True)
    with _profiler(recorder) as prof:
        found["within"] = launch_ns()
    if recorder == "ours":
        found["recorded"] = sum(work(prof.recording).values())
        found["dropped"] = sum(prof.recording.drops.values())
    torch.cuda.synchronize()
    return {
        **found,
        "after": launch_ns(),
        "first_begin": begins_ns[0],
        "begin": median(begins_ns[1:]),
        "first_end": ends_ns[0],
        "end": median(ends_ns[1:]),
    }


def _window_ns(recorder: str) -> tuple[int, int]:
    """What it takes to begin and to end a window with ten launches, for which nobody has to wait."""
    import torch

    x = torch.ones(1, device="cuda")
    torch.cuda.synchronize()
    profiler = _profiler(recorder)
    begin = time.perf_counter_ns()
    profiler.__enter__()
    begun = time.perf_counter_ns()
    for _ in range(10):
        x.add_(1)
    torch.cuda.synchronize()
    end = time.perf_counter_ns()
    profiler.__exit__(None, None, None)
    return begun - begin, time.perf_counter_ns() - end


def _profiler(recorder: str) -> Any:
    if recorder == "torch":
        import torch

        return torch.profiler.profile()
    from otel_torchprof import profile

    return profile(device="on" if recorder == "ours" else "off", buffer_size_bytes=1 << 30)


def rows(folder: Path) -> Iterator[tuple[str, str]]:
    """Each figure with what it is of. What cannot be measured has the reason for its figure."""
    for program in PROGRAMS:
        yield f"durations of {program}", _or_reason(partial(_deviation, folder, program))
    for recorder, name in RECORDERS.items():
        yield from _costs(recorder, name)


def _costs(recorder: str, name: str) -> Iterator[tuple[str, str]]:
    times: dict[str, float] = {}
    launched = _REPEATS * _LAUNCHES + 1  # and the fill

    def of_launch() -> str:
        times.update(json.loads(run_module("tests.gpu.measure", "--recorder", recorder).splitlines()[-1]))
        added, left = times["within"] - times["before"], times["after"] / times["before"] - 1
        figure = f"{times['before']:.0f} ns before, {added:+.0f} ns recorded, {left:+.1%} after"
        # What was not recorded costs nothing.
        if times.get("recorded", launched) != launched:
            figure += f"; but {times['recorded']:.0f} of {launched} recorded, {times['dropped']:.0f} drops"
        return figure

    yield f"a launch, {name}", _or_reason(of_launch)
    if "begin" in times:
        ms = {part: times[part] / _NS_PER_MS for part in ("first_begin", "begin", "first_end", "end")}
        yield (
            f"a window, {name}",
            f"{ms['begin']:.1f} ms to begin (the first {ms['first_begin']:.1f}), "
            f"{ms['end']:.1f} ms to end (the first {ms['first_end']:.1f})",
        )


def _or_reason(figure: Callable[[], str]) -> str:
    try:
        return figure()
    except Exception as error:  # the other rows are still to come
        print(f"{type(error).__name__}: {error}", flush=True)
        return f"{_FAILED}{type(error).__name__}, see the log"


def _deviation(folder: Path, program: str) -> str:
    """By how much the median durations differ: two runs, so that some always do."""
    ours, torchs = (load(recording_path(folder, program, recorder))[0] for recorder in OURS_AND_TORCHS)
    found = durations(ours, torchs)
    print(f"{program}:")
    for one in found:
        note = "" if one.is_comparable else "  (short or few)"
        print(f"  {one.pieces:4} of {one}  {one.name}{note}", flush=True)
    compared = [one for one in found if one.is_comparable]
    if not compared:
        return f"none of {len(found)} is long enough and there often enough"
    within = sum(abs(one.deviation) <= _SAME for one in compared)
    worst = max(compared, key=lambda one: abs(one.deviation))
    return f"{within} of {len(compared)} within 5 %, the worst {worst.deviation:+.1%}, {worst.name:.60}"


def main(folder: Path) -> int:
    """Prints all rows; 0 = each has a figure."""
    failed = 0
    for what, figure in rows(folder):
        print(f"{what}\t{figure}", flush=True)
        failed |= figure.startswith(_FAILED)
    return int(failed)


if __name__ == "__main__":
    if sys.argv[1] == "--recorder":
        print(json.dumps(measure(sys.argv[2])))
    else:
        sys.exit(main(Path(sys.argv[1])))
