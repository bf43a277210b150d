"""When each step of a recording went on, and which of them figures "a step" are of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.step_gaps import StepEvents
from otel_torchprof.recording import Recording, Step, StepFlags

NO_STEP = -1
NO_PROBLEMS: Mapping[str, int] = MappingProxyType({})
_OUTLIER_TIMES = 2  # as long as the median at least
_OUTLIER_STEPS = 3  # fewer have no median to speak of
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Lack(Enum):
    """What a recording lacks of a step."""

    NOTHING = ""
    PARTIAL = "partial"  # the recording began or ended inside it
    UNFINISHED = "unfinished"
    INCOMPLETE = "incomplete"  # events in it were dropped, or cut off with the file


@dataclass(frozen=True, eq=False)
class StepTimes:
    """Columns, a row for each of `Recording.steps`; times are unix ns."""

    start_ns: Numbers
    end_ns: Numbers
    lacks: tuple[Lack, ...]

    @classmethod
    def of(cls, recording: Recording, problems: Mapping[str, int] = NO_PROBLEMS) -> StepTimes:
        """Of all steps of a recording.

        Args:
            problems: what was wrong with the file that it was read from.
        """
        steps = recording.steps
        return cls(
            np.array([step.start_ns for step in steps], dtype=np.int64),
            np.array([step.end_ns for step in steps], dtype=np.int64),
            _lacks(recording, problems),
        )

    def __len__(self) -> int:
        return len(self.start_ns)

    @cached_property
    def duration_ns(self) -> Numbers:
        """End minus start."""
        return self.end_ns - self.start_ns

    @cached_property
    def until_ns(self) -> Numbers:
        """When each ends or gives way to one that begins before it ends: no moment is of two steps."""
        return np.minimum(self.end_ns, np.append(self.start_ns[1:], self.end_ns[-1:]))

    @cached_property
    def is_whole(self) -> Mask:
        """Which were recorded from begin to end, with all that happened in them."""
        return np.array([lack is Lack.NOTHING for lack in self.lacks], dtype=bool)

    @cached_property
    def is_complete(self) -> Mask:
        """Of which all events are there that the recording saw: what they did can be said."""
        return np.array([lack is not Lack.INCOMPLETE for lack in self.lacks], dtype=bool)

    @cached_property
    def counts(self) -> Mask:
        """The steps that figures of a step are of: those recorded whole, or all where none was.

        Of these the complete ones, if there are any.
        """
        wanted = (self.is_whole, self.is_complete)
        return next((mask for mask in wanted if mask.any()), np.ones(len(self), dtype=bool))

    @property
    def counted(self) -> int:
        """How many of them there are."""
        return int(self.counts.sum())

    @property
    def left_out(self) -> int:
        """How many do not count, as they were not recorded whole."""
        return len(self) - self.counted

    @property
    def median_ns(self) -> int:
        """How long a step usually takes; 0 where there are none."""
        return int(np.median(self.duration_ns[self.counts])) if len(self) else 0

    def slowest(self, most: int) -> list[int]:
        """The longest of the steps that count, the longest first."""
        order = np.argsort(-self.duration_ns, kind="stable")
        return [step for step in order.tolist() if self.counts[step]][:most]

    @property
    def outlier(self) -> int | None:
        """The slowest step, where it took several times as long as usual and it can be said with what."""
        if self.counted < _OUTLIER_STEPS:
            return None
        slowest = self.slowest(1)[0]
        is_long = self.duration_ns[slowest] >= max(_OUTLIER_TIMES * self.median_ns, 1)
        return slowest if is_long and self.is_complete[slowest] else None

    def at(self, times_ns: Numbers) -> Numbers:
        """The step that goes on at each time, the one begun last where several do; `NO_STEP` = none."""
        if not len(self):
            return np.full(len(times_ns), NO_STEP, dtype=np.int64)
        step = np.searchsorted(self.start_ns, times_ns, side="right") - 1
        return np.where((step >= 0) & (times_ns < self.end_ns[step]), step, NO_STEP)


def _lacks(recording: Recording, problems: Mapping[str, int]) -> tuple[Lack, ...]:
    steps = recording.steps
    if not steps:
        return ()
    events = StepEvents(recording)
    lacks = [_flagged(step) for step in steps]
    for step in np.flatnonzero(events.are_lost(problems)).tolist():
        lacks[step] = Lack.INCOMPLETE
    for step in np.flatnonzero(events.are_left_over([lack is Lack.NOTHING for lack in lacks])).tolist():
        lacks[step] = Lack.PARTIAL
    return tuple(lacks)


def _flagged(step: Step) -> Lack:
    if step.flags & StepFlags.PARTIAL:
        return Lack.PARTIAL
    return Lack.UNFINISHED if step.flags & StepFlags.UNFINISHED else Lack.NOTHING
