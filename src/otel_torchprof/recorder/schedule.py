"""Which steps are recorded: pure state machines from a step number to an action.

Step 0 begins when recording could begin; step n begins at the n-th step boundary.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Protocol


class ProfilerAction(IntEnum):
    """What to do during a step. The values are torch.profiler's."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3

    @property
    def records(self) -> bool:
        """Whether the step is recorded."""
        return self >= ProfilerAction.RECORD


class Schedule(Protocol):
    """Decides about a step when it begins; asked once a step, in order."""

    def action(self, step: int) -> ProfilerAction:
        """Return what to do during step number `step`."""
        ...

    @property
    def is_due(self) -> bool:
        """Whether a step that begins now may have another answer than NONE, or must be counted."""
        ...


@dataclass(frozen=True, slots=True)
class CycleSchedule:
    """Skip, then repeat (wait, warm up, record): the meaning of `torch.profiler.schedule`.

    All lengths are in steps.

    Args:
        skip_first: steps ignored at the start.
        wait: steps ignored at the start of each cycle.
        warmup: steps before the recorded ones, in which the recorder is made ready.
        active: recorded steps of a cycle, at least 1.
        repeat: number of cycles, 0 = no end.
        skip_first_wait: non-zero leaves out `wait` in the first cycle.

    Raises:
        ValueError: a length is out of range.
    """

    skip_first: int = 0
    wait: int = 0
    warmup: int = 0
    active: int = 1
    repeat: int = 0
    skip_first_wait: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            least = 1 if field.name == "active" else 0
            if getattr(self, field.name) < least:
                raise ValueError(f"{field.name} must be at least {least}, not {getattr(self, field.name)}")

    @property
    def is_due(self) -> bool:
        """Whether steps must be counted: all of them."""
        return True

    def action(self, step: int) -> ProfilerAction:
        """Return what to do during step number `step` (from 0)."""
        if step < self.skip_first:
            return ProfilerAction.NONE
        step -= self.skip_first
        if self.skip_first_wait:
            step += self.wait
        cycle_steps = self.wait + self.warmup + self.active
        cycle, position = divmod(step, cycle_steps)
        if (self.repeat and cycle >= self.repeat) or position < self.wait:
            return ProfilerAction.NONE
        if position < self.wait + self.warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if position == cycle_steps - 1 else ProfilerAction.RECORD


class IntervalSchedule:
    """One step early, then one every `interval_s` seconds of wall time.

    The early one is the first after two complete steps, so that lazy initialisation is over and a
    short run shows something too.

    Args:
        interval_s: seconds from the start of a recorded step to the earliest start of the next.
        clock: seconds, monotonic.
    """

    FIRST_STEP = 2

    def __init__(self, interval_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._next_due_s: float | None = None

    @property
    def is_due(self) -> bool:
        """Whether the interval is over."""
        return self._next_due_s is None or self._clock() >= self._next_due_s

    def action(self, step: int) -> ProfilerAction:
        """Return what to do during step number `step`, which begins now."""
        if step < self.FIRST_STEP or not self.is_due:
            return ProfilerAction.NONE
        self._next_due_s = self._clock() + self._interval_s
        return ProfilerAction.RECORD_AND_SAVE


def parse_schedule(text: str) -> CycleSchedule:
    """Read `skip_first=5,wait=0,warmup=1,active=3,repeat=1`; every key is optional.

    Raises:
        ValueError: an unknown or repeated key, or a value that is no number in range.
    """
    known = [field.name for field in fields(CycleSchedule)]
    lengths: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, separator, value = (piece.strip() for piece in part.partition("="))
        if not separator:
            raise ValueError(f"{part!r} is not KEY=NUMBER")
        if key not in known:
            raise ValueError(f"unknown key {key!r}, known are {', '.join(known)}")
        if key in lengths:
            raise ValueError(f"{key} is given twice")
        if not (value.isascii() and value.isdigit()):
            raise ValueError(f"{key} must be a whole number, not {value!r}")
        lengths[key] = int(value)
    if not lengths:
        raise ValueError("no KEY=NUMBER in it")
    return CycleSchedule(**lengths)
