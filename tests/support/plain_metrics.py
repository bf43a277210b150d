"""What metrics of operators should be, in a few lines of plain Python: one event at a time, no columns."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from otel_torchprof.recording import EventFlags, EventKind, Recording, StepPhase

NOT_ENDED = EventFlags.UNFINISHED | EventFlags.INSTANT
NOT_PART = EventFlags.ASYNC | EventFlags.OTHER_THREAD


class OpSums(NamedTuple):
    """Calls, and times in ns."""

    calls: int
    total_ns: int
    self_ns: int


def plain_phase(recording: Recording, row: int) -> str:
    """The phase of an event, from it outwards."""
    lineage = [
        index
        for index in (row, *recording.tree().ancestors(row))
        if recording.events.kind[index] in (EventKind.OP, EventKind.USER)
    ]
    for index in lineage:
        name = recording.event_name(index)
        if (
            recording.events.scope[index] == 1
            or recording.events.forward_thread[index] != 0
            or name.startswith("autograd::engine::evaluate_function: ")
        ):
            return "backward"
        if name.startswith(("Optimizer.step#", "Optimizer.zero_grad#")):
            return "optimizer"
    for index in lineage:
        if recording.events.sequence[index] >= 0 or is_in_inference(recording, index):
            return "forward"
    return "other"


def is_in_inference(recording: Recording, row: int) -> bool:
    start_ns = recording.events.start_ns[row]
    begun = [step for step in recording.steps if step.start_ns <= start_ns]
    return bool(
        begun and start_ns < begun[-1].end_ns and begun[-1].phase in (StepPhase.EVAL, StepPhase.INFER)
    )


def plain_op_sums(recording: Recording) -> dict[tuple[str, str], OpSums]:
    """By recorded name and phase."""
    events, tree = recording.events, recording.tree()
    sums: dict[tuple[str, str], OpSums] = defaultdict(lambda: OpSums(0, 0, 0))

    def is_op(row: int) -> bool:
        return events.kind[row] in (EventKind.OP, EventKind.USER) and not events.flags[row] & NOT_ENDED

    def self_ns(row: int) -> int:
        inner = [child for child in tree.children(row).tolist() if not is_op(child)]
        parts = [child for child in inner if not events.flags[child] & NOT_PART]
        return int(tree.self_ns[row]) + sum(self_ns(child) for child in parts)

    for row in range(len(recording)):
        if not is_op(row):
            continue
        key = (recording.event_name(row), plain_phase(recording, row))
        calls, total, own = sums[key]
        total += int(events.end_ns[row]) - int(events.start_ns[row])
        sums[key] = OpSums(calls + 1, total, own + self_ns(row))
    return dict(sums)
