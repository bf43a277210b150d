"""Steps that our own exporter wrote: annotations in a trace, but no events of the recording."""

from __future__ import annotations

from typing import NamedTuple

from otel_torchprof.importers.chrome.schema import Event
from otel_torchprof.recording import StepFlags, StepPhase

_PHASES = {phase.name.lower(): phase for phase in StepPhase}


class OwnStep(NamedTuple):
    """A step; the fields are those of `RecordingBuilder.add_step`."""

    start_ns: int
    end_ns: int
    number: int
    track: int
    phase: StepPhase
    flags: StepFlags


def own_step(event: Event, number: int | None, start_ns: int, end_ns: int, track: int) -> OwnStep | None:
    """The step that an event stands for, None where it is one of the recording's.

    Args:
        number: what its name says, None where that is not called as steps are.
    """
    arguments = event.args
    if arguments is None or number is None or not isinstance(arguments.step_phase, str):
        return None
    if (phase := _PHASES.get(arguments.step_phase)) is None:
        return None
    flags = StepFlags.HAS_NUMBER
    if arguments.step_partial is True:
        flags |= StepFlags.PARTIAL
    if arguments.finished is False:
        flags |= StepFlags.UNFINISHED
    return OwnStep(start_ns, end_ns, number, track, phase, flags)
