"""Waiting for the device where the program could go on."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from otel_torchprof.analysis.launches import WORK_KINDS
from otel_torchprof.analysis.patterns.finding import Level, Numbers
from otel_torchprof.analysis.patterns.pattern import Match, Need, pattern
from otel_torchprof.analysis.patterns.view import NONE, View
from otel_torchprof.recording import EventKind

_MIN_STEPS = 2
_MIN_READS_PER_STEP = 2
_MIN_READS = 8  # where there are no steps
_STREAM_WAIT = re.compile(r"^(?:cuda|hip)StreamSynchronize$|^hipMemcpyWithStream$|^(?:cuda|hip)Memcpy$")
_DEVICE_WAIT = re.compile(r"^(?:cuda|hip)DeviceSynchronize$")
_READS = (
    "aten::item", "aten::is_nonzero", "aten::nonzero", "aten::_local_scalar_dense", "aten::equal",
    "aten::masked_select", "aten::unique", "aten::_unique2", "aten::repeat_interleave",
)  # fmt: skip
_MAX_IDLE_NS = 1_000_000  # longer pauses have other reasons too
_URL = "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization"


def _idle_after_ns(view: View, rows: Numbers) -> Numbers:
    """How long devices do nothing after each of these calls returns, up to a bound."""
    work = np.flatnonzero(view.of_kind(*WORK_KINDS))
    starts_ns = np.sort(view.events.start_ns[work])
    ends_ns = np.sort(view.events.end_ns[work])
    returned_ns = view.events.end_ns[rows]
    following = np.searchsorted(starts_ns, returned_ns)
    preceding = np.searchsorted(ends_ns, returned_ns, side="right") - 1
    known = (following < len(starts_ns)) & (preceding >= 0)
    # What has started and not ended keeps a device busy.
    idle = known & (following == preceding + 1)
    idle_ns = np.zeros(len(rows), dtype=np.int64)
    idle_ns[idle] = starts_ns[following[idle]] - ends_ns[preceding[idle]]
    return np.clip(idle_ns, 0, _MAX_IDLE_NS)


@pattern(
    "synchronizing-read",
    title="Values are read back from the device in the loop",
    needs=(Need.DEVICE,),
    why="The program waits until the device is done; meanwhile it launches nothing, and the device then "
    "stands still "
    "until the next launch.",
    found="`item`, `nonzero` and other ops that wait for a stream, at least "
    f"{_MIN_READS_PER_STEP} a step in at least {_MIN_STEPS} steps, or {_MIN_READS} where there are no "
    "steps.",
    advice="Keep values on the device, and read them once every so many steps.",
    example="losses.append(loss.detach())\nif step % 100 == 0:\n    print(torch.stack(losses).mean().item())",
    limits="The cost is the time that all devices stand still after each read, up to "
    f"{_MAX_IDLE_NS // 1_000_000} ms; that work then continues late is not measured.",
    url=_URL,
)
def synchronizing_read(view: View) -> Iterator[Match]:
    waits = view.of_kind(EventKind.RUNTIME, EventKind.DRIVER) & view.where_name(_STREAM_WAIT.match)
    reads = view.is_op & view.named(*_READS) & view.holds(waits)
    rows = np.flatnonzero(reads & ~view.inside(reads))
    if view.steps:
        rows = rows[view.step[rows] != NONE]
        steps = view.steps_with(rows)
        enough = steps >= _MIN_STEPS and len(rows) >= _MIN_READS_PER_STEP * steps
    else:
        enough = len(rows) >= _MIN_READS
    if enough:
        detail = f"{len(rows)} reads that wait for the device"
        yield Match(rows, Level.HIGH, detail, cost_ns=_idle_after_ns(view, rows), saving=(0.3, 1.0))


@pattern(
    "device-synchronize",
    title="Each step waits for the whole device",
    needs=(Need.DEVICE, Need.STEPS),
    why="All streams run dry before the program launches anything further.",
    found=f"`cudaDeviceSynchronize` or `hipDeviceSynchronize` in at least {_MIN_STEPS} steps that other "
    "work follows.",
    advice="Leave torch.cuda.synchronize() out of the loop; measure time with events instead.",
    example="start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))",
    limits="The one with which a profiler ends its recording does not count.",
    url=_URL,
)
def device_synchronize(view: View) -> Iterator[Match]:
    calls = view.of_kind(EventKind.RUNTIME) & view.where_name(_DEVICE_WAIT.match)
    rows = np.flatnonzero(calls & (view.step != NONE))
    work = view.of_kind(*WORK_KINDS)
    last_ns = view.events.start_ns[work].max()
    rows = rows[view.events.end_ns[rows] <= last_ns]
    steps = view.steps_with(rows)
    if steps >= _MIN_STEPS:
        detail = f"{len(rows)} calls in {steps} steps"
        yield Match(rows, Level.HIGH, detail, cost_ns=_idle_after_ns(view, rows), saving=(0.3, 1.0))
