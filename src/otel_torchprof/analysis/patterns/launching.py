"""Devices that wait to be told what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from otel_torchprof.analysis.late_launches import dry_since_ns, is_late
from otel_torchprof.analysis.launches import CALL_KINDS
from otel_torchprof.analysis.patterns.finding import Level, Numbers
from otel_torchprof.analysis.patterns.pattern import Match, Need, pattern
from otel_torchprof.analysis.patterns.view import NONE, View
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
    found=f"At least {_MIN_KERNELS} kernels, and {_MIN_LATE_SHARE:.0%} of all, whose launch was over when "
    "the device had nothing left to do, without the program having waited for the device in between. The "
    f"pauses before them, up to {_MAX_IDLE_NS // 1_000_000} ms each, are at least {_MIN_IDLE_SHARE:.0%} of "
    "the time.",
    advice="Launch fewer kernels that do more: compile the model, record a CUDA graph, make batches larger.",
    example='model = torch.compile(model, mode="reduce-overhead")  # with CUDA graphs',
    limits="Recording takes time on the host too, most of all with Python calls: then it is less sure.",
    url="https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs",
)
def launch_bound(view: View) -> Iterator[Match]:
    call, work = view.launches
    kernels = view.of_kind(EventKind.KERNEL)[work] & view.of_kind(*CALL_KINDS)[call]
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
    detail = _seen(int(is_late(view.recording)[work].sum()), len(work), int(late.sum()))
    yield Match(rows, confidence, detail, cost_ns=cost_ns[rows], saving=(0.3, 0.9), has_place=False)


def _seen(late: int, launched: int, for_no_other_reason: int) -> str:
    text = f"{late} of {launched} kernels were launched when the device had run dry"
    if for_no_other_reason == late:
        return text
    return f"{text}, {for_no_other_reason} of them without a wait or a longer pause before"


def _idle_before_ns(view: View, call: Numbers, work: Numbers) -> Numbers:
    """How long the device of each piece of work had done nothing when it began; 0 where it was launched in
    time, or late for another reason than launching."""
    events = view.events
    waits = view.of_kind(*CALL_KINDS) & view.where_name(_WAIT.match)
    waits_end_ns = np.sort(events.end_ns[waits])
    dry_ns = dry_since_ns(view.recording)[work]
    waited = np.searchsorted(waits_end_ns, events.start_ns[call], side="right") > np.searchsorted(
        waits_end_ns, dry_ns
    )
    length_ns = events.start_ns[work] - dry_ns
    counts = is_late(view.recording)[work] & ~waited & (length_ns <= _MAX_IDLE_NS)
    return np.where(counts, np.maximum(length_ns, 0), 0)
