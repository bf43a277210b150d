"""What a schedule says of each step."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from enum import Enum
from typing import Any

from otel_torchprof.recorder.schedule import CycleSchedule


class ProfilerAction(Enum):
    """What a profile does during a step. Members and values are torch.profiler's."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4
    """Torch's own mark of a device that stopped; no schedule may return it."""

    @property
    def records(self) -> bool:
        """Whether the step is recorded."""
        return self in {ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE}


Schedule = Callable[[int], ProfilerAction]


class InvalidSchedule(ValueError, AssertionError):
    """Lengths that make no schedule. Torch raises AssertionError for them."""


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Schedule:
    """A schedule: skip, then repeat (wait, warm up, record). All lengths are in steps.

    Args:
        wait: steps ignored at the start of each cycle.
        warmup: steps before the recorded ones, in which the recorder is made ready.
        active: recorded steps of a cycle, at least 1.
        repeat: number of cycles, 0 = no end.
        skip_first: steps ignored at the start.
        skip_first_wait: non-zero leaves out `wait` in the first cycle.

    Raises:
        InvalidSchedule: a length is out of range.
    """
    try:
        cycles = CycleSchedule(skip_first, wait, warmup, active, repeat, skip_first_wait)
    except ValueError as error:
        raise InvalidSchedule(f"invalid profiler schedule: {error}") from None

    def action_of(step: int) -> ProfilerAction:
        if step < 0:
            raise InvalidSchedule(f"a step is numbered from 0, not {step}")
        return ProfilerAction(int(cycles.action(step)))

    return action_of


def always_record(_step: int) -> ProfilerAction:
    """The schedule of a profile that was given none."""
    return ProfilerAction.RECORD


def action_at(user_schedule: Callable[[int], Any], step: int) -> ProfilerAction:
    """Asks a schedule, which may be torch's and return torch's actions.

    Raises:
        ValueError: it returned what is no action, or one that is not for schedules.
    """
    answer = user_schedule(step)
    action = ProfilerAction.__members__.get(getattr(answer, "name", ""))
    if action is None:
        raise ValueError(f"the schedule must return a ProfilerAction for step {step}, not {answer!r}")
    if action is ProfilerAction.DEVICE_STOPPED:
        raise ValueError(f"the schedule returned DEVICE_STOPPED for step {step}, which is not for schedules")
    return action


def warn_incorrect(before: ProfilerAction, after: ProfilerAction) -> None:
    """Says that a schedule leaves out the end of a cycle."""
    warnings.warn(f"Incorrect schedule: {before.name} followed by {after.name}", UserWarning, stacklevel=4)
