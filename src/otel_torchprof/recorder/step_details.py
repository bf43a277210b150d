"""What is told of a step when it begins."""

from __future__ import annotations

from typing import NamedTuple

# StepFlags of native/core/layout.h.
STEP_PARTIAL = 1
STEP_IN_PARENT = 2
STEP_HAS_NUMBER = 4


class StepDetails(NamedTuple):
    """What a step has beside its number, in the recorder's plain terms and the order of its native half.

    Attributes:
        phase: a StepPhase of native/core/layout.h.
        flags: StepFlags of the same.
        context: the OpenTelemetry context that is current: trace id (16 bytes) and span id (8 bytes), or
            nothing.
        context_trace_flags: its trace flags.
        links: further contexts the step serves, 24 bytes each.
    """

    phase: int = 0
    flags: int = 0
    context: bytes = b""
    context_trace_flags: int = 0
    links: bytes = b""


NO_DETAILS = StepDetails()
