"""In which phase of training or inference each event is."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.event_names import is_named
from otel_torchprof.analysis.merged_stacks import nearest
from otel_torchprof.recording import EventKind, Recording, StepPhase

# By number, as native/core/aggregate/phase.h has them.
PHASES = ("other", "forward", "backward", "optimizer")
NO_PHASE, FORWARD, BACKWARD, OPTIMIZER = range(4)

_OPTIMIZER_NAMES = ("Optimizer.step#", "Optimizer.zero_grad#")
NO_STEP = -1
Numbers: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]


def phase_of_events(recording: Recording) -> npt.NDArray[np.uint8]:
    """For each event an index into `PHASES`, by what encloses it on its thread and by itself:

    - backward or optimizer: the innermost that begins one of them does: a function of the backward pass, as
      native/core/backwards.h tells it, and a step of an optimizer, or its clearing of gradients;
    - forward: none does, and one has a number of autograd or began in a step of evaluation or inference;
    - else other.
    """
    events, parent = recording.events, recording.tree().parent
    on_cpu = np.isin(events.kind, (EventKind.OP, EventKind.USER))
    is_backward = recording.native.backward_events().astype(bool)
    is_optimizer = is_named(recording, lambda name: name.startswith(_OPTIMIZER_NAMES))
    is_forward = on_cpu & ((events.sequence >= 0) | _in_inference(recording))
    phase = np.where(nearest(parent, is_forward) >= 0, FORWARD, NO_PHASE).astype(np.uint8)
    begin = nearest(parent, is_backward | (on_cpu & is_optimizer))
    inside = np.flatnonzero(begin >= 0)
    phase[inside] = np.where(is_backward[begin[inside]], BACKWARD, OPTIMIZER)
    return phase


def _in_inference(recording: Recording) -> Mask:
    is_inference = np.array(
        [step.phase in {StepPhase.EVAL, StepPhase.INFER} for step in recording.steps] + [False], dtype=bool
    )
    # The last entry stands for no step.
    return is_inference[step_of_events(recording)]


def step_of_events(recording: Recording) -> Numbers:
    """For each event the step in which it began, the later of two; `NO_STEP` = none."""
    start_ns = recording.events.start_ns
    if not recording.steps:
        return np.full(len(start_ns), NO_STEP, dtype=np.int64)
    begins_ns = np.array([step.start_ns for step in recording.steps], dtype=np.int64)
    ends_ns = np.array([step.end_ns for step in recording.steps], dtype=np.int64)
    step = np.searchsorted(begins_ns, start_ns, side="right") - 1
    return np.where((step >= 0) & (start_ns < ends_ns[step]), step, NO_STEP)
