"""Operators of a recording: calls and times by name and phase."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.event_names import names_of, short_op_name
from otel_torchprof.analysis.merged_stacks import nearest
from otel_torchprof.metrics.families import MetricFamily
from otel_torchprof.metrics.named_events import CALLS, NamedEvents
from otel_torchprof.metrics.phases import PHASES, phase_of_events
from otel_torchprof.recording import EventFlags, EventKind, Recording
from otel_torchprof.semconv_metrics import OP_CALLS, OP_DURATION, OP_NAME, OP_SELF_TIME, OP_TIME, PHASE

Numbers: TypeAlias = npt.NDArray[np.int64]

_TIME, _SELF_TIME = CALLS + 1, CALLS + 2
_NOT_ENDED = EventFlags.UNFINISHED | EventFlags.INSTANT
_NOT_PART = EventFlags.ASYNC | EventFlags.OTHER_THREAD
_NS_PER_S = 1_000_000_000


def op_families(recording: Recording, start_unix_ns: int, *, durations: bool = False) -> list[MetricFamily]:
    """What operators did, and scopes that the program marks; those that have not ended are left out.

    Args:
        durations: make the histogram, too.
    """
    events = recording.events
    is_op = np.isin(events.kind, (EventKind.OP, EventKind.USER)) & (events.flags & _NOT_ENDED == 0)
    rows = np.flatnonzero(is_op)
    name, names = names_of(recording, rows, short_op_name)
    durations_ns = events.end_ns[rows] - events.start_ns[rows]
    ops = NamedEvents(
        OP_NAME,
        names,
        name,
        [{PHASE: phase} for phase in PHASES],
        phase_of_events(recording)[rows].astype(np.int64),
        [durations_ns, _self_ns(recording, is_op)[rows]],
        weight=_SELF_TIME,
        start_unix_ns=start_unix_ns,
    )
    families = [
        ops.counter(OP_CALLS, CALLS),
        ops.counter(OP_TIME, _TIME, per_unit=_NS_PER_S),
        ops.counter(OP_SELF_TIME, _SELF_TIME, per_unit=_NS_PER_S),
    ]
    if durations:
        families.append(ops.histogram(OP_DURATION, durations_ns))
    return families


def _self_ns(recording: Recording, is_op: npt.NDArray[np.bool_]) -> Numbers:
    """By row, the time of an operator without the operators in it on its own thread.

    What else it called, as runtime calls and Python functions, is part of it: else the times of operators
    would not add up.
    """
    events, tree = recording.events, recording.tree()
    is_part = events.flags & _NOT_PART == 0
    owner = nearest(tree.parent, is_op)
    owned = (owner >= 0) & (is_op | is_part)
    self_ns = np.zeros(len(recording), dtype=np.int64)
    np.add.at(self_ns, owner[owned], tree.self_ns[owned])
    return self_ns
