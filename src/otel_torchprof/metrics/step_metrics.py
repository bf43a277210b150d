"""Steps of a recording, and how long they waited for their input."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.event_names import is_named
from otel_torchprof.metrics.families import MetricFamily, NumberPoint
from otel_torchprof.metrics.histogram_family import histogram_family
from otel_torchprof.metrics.phases import step_of_events
from otel_torchprof.recording import EventFlags, EventKind, Recording, StepFlags, StepPhase
from otel_torchprof.semconv_metrics import (
    DATALOADER_WAIT,
    METRIC_BY_NAME,
    STEP_DURATION,
    STEP_LAST_TIMESTAMP,
    STEP_NUMBER,
    STEP_PHASE,
)

Numbers: TypeAlias = npt.NDArray[np.int64]

_NEXT_BATCH = re.compile(r"enumerate\(DataLoader\)#\w+\.__next__$")
_NOT_WHOLE = StepFlags.PARTIAL | StepFlags.UNFINISHED
# By number of the phase; no attribute where it is not known.
_ATTRIBUTES: tuple[Mapping[str, str], ...] = tuple(
    {STEP_PHASE: phase.name.lower()} if phase is not StepPhase.UNKNOWN else {} for phase in StepPhase
)


def step_families(recording: Recording, start_unix_ns: int) -> list[MetricFamily]:
    """Durations of whole steps, the last one's end and number, and waits for a DataLoader."""
    steps = [step for step in recording.steps if not step.flags & _NOT_WHOLE]
    durations_ns = np.array([step.duration_ns for step in steps], dtype=np.int64)
    phase = np.array([step.phase for step in steps], dtype=np.int64)
    last = max(steps, key=lambda step: step.end_ns, default=None)
    ended = [] if last is None else [NumberPoint({}, last.end_ns / 1e9, start_unix_ns)]
    numbered = [step for step in recording.steps if step.flags & StepFlags.HAS_NUMBER]
    number = [NumberPoint({}, step.number, start_unix_ns) for step in numbered[-1:]]
    return [
        histogram_family(STEP_DURATION, durations_ns, phase, _ATTRIBUTES, start_unix_ns),
        _dataloader_wait(recording, start_unix_ns),
        MetricFamily(METRIC_BY_NAME[STEP_LAST_TIMESTAMP], ended),
        MetricFamily(METRIC_BY_NAME[STEP_NUMBER], number),
    ]


def _dataloader_wait(recording: Recording, start_unix_ns: int) -> MetricFamily:
    events = recording.events
    is_wait = is_named(recording, lambda name: _NEXT_BATCH.match(name) is not None)
    is_wait &= np.isin(events.kind, (EventKind.OP, EventKind.USER)) & (
        events.flags & EventFlags.UNFINISHED == 0
    )
    rows = np.flatnonzero(is_wait)
    # The last entry stands for no step.
    phase_of_step = np.array([*(step.phase for step in recording.steps), StepPhase.UNKNOWN], dtype=np.int64)
    phase = phase_of_step[step_of_events(recording)[rows]]
    return histogram_family(
        DATALOADER_WAIT, events.end_ns[rows] - events.start_ns[rows], phase, _ATTRIBUTES, start_unix_ns
    )
