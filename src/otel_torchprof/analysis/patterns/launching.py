"""Devices that wait to be told what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from otel_torchprof.analysis.launches import WORK_KINDS
from otel_torchprof.analysis.patterns.finding import Level, Numbers
from otel_torchprof.analysis.patterns.pattern import Match, Need, pattern
from otel_torchprof.analysis.patterns.view import NONE, Mask, View
from otel_torchprof.recording import EventKind

_MIN_KERNELS = 50
_MIN_LATE_SHARE = 0.5  # of all kernels
_MIN_IDLE_SHARE = 0.3  # of the time that was recorded
_MAX_IDLE_NS = 1_000_000  # longer pauses have other reasons too
_WAIT = re.compile(r"^(?:cu|cuda|hip)[A-Z]\w*Synchronize|^hipMemcpyWithStream$|^(?:cuda|hip)Memcpy$")


@pattern(
    "launch-bound",
    title="The device waits for kernels to be launched",
    needs=(Need.DEVICE,),
    why="Each kernel is done before the program has launched the next one, so that the device stands still "
    "between them, however fast it is.",
    found=f"At least {_MIN_KERNELS} kernels, and {_MIN_LATE_SHARE:.0%} of all, whose launch began when the "
    "device had nothing left to do, without the program having waited for the device in between. The pauses "
    f"before them, up to {_MAX_IDLE_NS // 1_000_000} ms each, are at least {_MIN_IDLE_SHARE:.0%} of the "
    "time.",
    advice="Launch fewer kernels that do more: compile the model, record a CUDA graph, make batches larger.",
    example='model = torch.compile(model, mode="reduce-overhead")  # with CUDA graphs',
    limits="Recording takes time on the host too, most of all with Python calls: then it is less sure.",
    url="https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs",
)
def launch_bound(view: View) -> Iterator[Match]:
    call, work = view.launches
    kernels = view.of_kind(EventKind.KERNEL)[work]
    call, work = call[kernels], work[kernels]
    idle_ns = _idle_before_ns(view, call, work)
    late = idle_ns > 0
    ops = view.launched_by(work[late])
    known = ops != NONE
    if (
        known.sum() < _MIN_KERNELS
        or known.sum() < _MIN_LATE_SHARE * len(work)
        or idle_ns.sum() < _MIN_IDLE_SHARE * view.window_ns
    ):
        return
    cost_ns = np.zeros(len(view), dtype=np.int64)
    np.add.at(cost_ns, ops[known], idle_ns[late][known])
    rows = np.flatnonzero(cost_ns)
    confidence = Level.MEDIUM if view.has_stacks else Level.HIGH
    detail = f"{int(late.sum())} of {len(work)} kernels were launched when the device had run dry"
    yield Match(rows, confidence, detail, cost_ns=cost_ns[rows], saving=(0.3, 0.9), has_place=False)


def _idle_before_ns(view: View, call: Numbers, work: Numbers) -> Numbers:
    """How long the device of each piece of work had done nothing when it began; 0 where it was launched in
    time, or late for another reason than launching."""
    events = view.events
    waits = view.of_kind(EventKind.RUNTIME, EventKind.DRIVER) & view.where_name(_WAIT.match)
    waits_end_ns = np.sort(events.end_ns[waits])
    device = np.array([track.device for track in view.recording.tracks], dtype=np.int64)[events.track]
    busy = view.of_kind(*WORK_KINDS)
    idle_ns = np.zeros(len(work), dtype=np.int64)
    for number in np.unique(device[work]).tolist():
        chosen = np.flatnonzero(device[work] == number)
        dry_ns = _dry_since_ns(view, busy & (device == number), work[chosen])
        launch_ns = events.start_ns[call[chosen]]
        waited = np.searchsorted(waits_end_ns, launch_ns, side="right") > np.searchsorted(
            waits_end_ns, dry_ns
        )
        length_ns = events.start_ns[work[chosen]] - dry_ns
        is_late = (dry_ns != NONE) & (launch_ns >= dry_ns) & ~waited & (length_ns <= _MAX_IDLE_NS)
        idle_ns[chosen] = np.where(is_late, np.maximum(length_ns, 0), 0)
    return idle_ns


def _dry_since_ns(view: View, busy: Mask, work: Numbers) -> Numbers:
    """When everything that began on the device before each piece of work had ended; `NONE` = nothing did."""
    rows = np.flatnonzero(busy)
    order = rows[np.argsort(view.events.start_ns[rows], kind="stable")]
    reach_ns = np.maximum.accumulate(view.events.end_ns[order])
    before = np.searchsorted(view.events.start_ns[order], view.events.start_ns[work]) - 1
    return np.where(before >= 0, reach_ns[before], NONE)
